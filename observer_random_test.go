package retrybudget_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// randomStep answers an attempt in one of all ways, after up to 20 ms.
func randomStep(chance *rand.Rand) rpctest.Step {
	unavailable := rpctest.Unavailable()
	steps := []rpctest.Step{
		rpctest.OK(), rpctest.OK(), unavailable, unavailable, unavailable,
		rpctest.Fail(codes.NotFound, "none"), rpctest.Fail(codes.Aborted, "conflict"), rpctest.Fail(codes.DeadlineExceeded, "mine"),
		rpctest.Fail(codes.Canceled, "mine"), rpctest.Fail(codes.ResourceExhausted, "quota"),
		rpctest.RetryInfo(codes.ResourceExhausted, 5*time.Millisecond), rpctest.RetryInfo(codes.Unavailable, time.Hour),
		rpctest.Pushback(unavailable, "3"), rpctest.Pushback(unavailable, "-1"), rpctest.Pushback(unavailable, "99999999"),
		rpctest.WithTrailer(unavailable, "retrybudget-exhausted", "1"), rpctest.Hang(),
	}
	step := steps[chance.IntN(len(steps))]
	if chance.IntN(2) == 0 {
		step = rpctest.After(time.Duration(chance.IntN(20))*time.Millisecond, step)
	}
	return step
}

// randomOptions returns call options of a random kind of call.
func randomOptions(chance *rand.Rand) (opts []grpc.CallOption) {
	switch chance.IntN(6) {
	case 0:
		opts = append(opts, retrybudget.CallDisabled())
	case 1:
		opts = append(opts, retrybudget.CallMaxAttempts(1+chance.IntN(6)))
	}
	opts = append(opts, retrybudget.CallIdempotency(retrybudget.Idempotency(chance.IntN(3))))
	if chance.IntN(2) == 0 {
		// Half a millisecond aside from everything that the server does.
		opts = append(opts, retrybudget.CallPerAttemptTimeout(9500*time.Microsecond))
	}
	return opts
}

// accounts is a TokenBucket that keeps books.
type accounts struct {
	*retrybudget.TokenBucket
	mu                            sync.Mutex
	successes, failures, refusals int
	open                          map[retrybudget.Cause]int // grants not settled
	outcomes                      map[retrybudget.Outcome]int
}

func (a *accounts) count(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *accounts) RecordSuccess() {
	a.count(func() { a.successes++ })
	a.TokenBucket.RecordSuccess()
}

func (a *accounts) RecordFailure(c retrybudget.Cause) {
	a.count(func() { a.failures++ })
	a.TokenBucket.RecordFailure(c)
}

func (a *accounts) TryTake(c retrybudget.Cause) bool {
	ok := a.TokenBucket.TryTake(c)
	a.count(func() {
		if ok {
			a.open[c]++
		} else {
			a.refusals++
		}
	})
	return ok
}

func (a *accounts) Settle(c retrybudget.Cause, o retrybudget.Outcome) {
	a.count(func() {
		a.open[c]--
		a.outcomes[o]++
	})
	a.TokenBucket.Settle(c, o)
}

// total sums the values of a map.
func total[K comparable](counts map[K]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// Whatever happens to calls, the books balance: attempts = calls + retries, one
// reason for each failed call and none for others, one end for each call, one
// settlement for each grant.
func TestObserver_booksBalance(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { booksBalance(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func booksBalance(t *testing.T, chance *rand.Rand) {
	t.Helper()
	const calls = 300
	mode := retrybudget.Enforce
	if chance.IntN(3) == 0 {
		mode = retrybudget.Observe
	}
	books := &accounts{
		TokenBucket: newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 100, Initial: 60}),
		open:        map[retrybudget.Cause]int{}, outcomes: map[retrybudget.Outcome]int{},
	}
	journal := &callJournal{}
	r := newRetrier(t, retrybudget.WithMode(mode), retrybudget.WithObserver(journal), retrybudget.WithBudget(retrybudget.Shared(books)),
		retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4, Timeout: 70500 * time.Microsecond, Backoff: retrybudget.ExponentialBackoff{Initial: 4 * time.Millisecond}}))
	s := rpctest.New()
	cc := s.Dial(t, r.DialOptions()...)
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for i := range calls {
		method := fmt.Sprint("/random.R/", i)
		s.Script(method, randomStep(chance), randomStep(chance), randomStep(chance), randomStep(chance), randomStep(chance), randomStep(chance))
		opts := randomOptions(chance)
		ctx, cancel := context.WithCancel(rpctest.WithCallID(t.Context(), fmt.Sprint(i)))
		begin, patience := time.After(time.Duration(chance.IntN(100))*time.Millisecond), time.Hour
		if chance.IntN(5) == 0 {
			patience = time.Duration(chance.IntN(30))*time.Millisecond + 250*time.Microsecond
		}
		wg.Go(func() {
			defer cancel()
			<-begin
			defer time.AfterFunc(patience, cancel).Stop()
			errs[i] = rpctest.CallMethod(ctx, cc, method, opts...)
		})
	}
	wg.Wait()

	reasons, failed, firstOK := map[retrybudget.Reason]int{}, 0, 0
	require.Len(t, journal.ended, calls, "one end for each call")
	for _, e := range journal.ended {
		md, _ := metadata.FromOutgoingContext(e.Call.Context)
		id := md.Get(rpctest.CallID)[0]
		require.Equal(t, s.Attempts(id), e.Call.Attempt, "attempts of one call")
		var i int
		_, err := fmt.Sscan(id, &i)
		require.NoError(t, err)
		require.Equal(t, errs[i], e.Err, "what the caller got")
		require.Equal(t, status.Code(errs[i]), e.Code)
		require.Equal(t, e.Call.Attempt, e.Last.Attempt)
		require.Len(t, e.Earlier, e.Call.Attempt-1)
		require.Equal(t, e.Err == nil, e.Reason == retrybudget.NoReason, "a reason for each failed call, none for others")
		if e.Err != nil {
			failed++
			require.True(t, slices.Contains(retrybudget.Reasons(), e.Reason))
			reasons[e.Reason]++
		} else if e.Call.Attempt == 1 {
			firstOK++
		}
	}
	assert.Equal(t, failed, total(reasons))
	assert.Equal(t, calls+len(journal.retries), s.Attempts(""), "attempts = calls + retries")
	observed := map[bool]int{}
	for _, e := range journal.refusals {
		observed[e.Observed]++
		assert.NotContains(t, []retrybudget.Reason{retrybudget.ReasonNotRetryable, retrybudget.ReasonDisabled, retrybudget.NoReason}, e.Reason)
	}
	assert.LessOrEqual(t, observed[false], failed-reasons[retrybudget.ReasonNotRetryable]-reasons[retrybudget.ReasonDisabled])

	assert.Equal(t, firstOK, books.successes, "one deposit for each call that succeeded at once")
	for cause, n := range books.open {
		assert.Zero(t, n, "grants not settled, or settled twice: %+v", cause)
	}
	assert.Zero(t, books.outcomes[retrybudget.Refused])
	if mode == retrybudget.Observe {
		assert.Equal(t, books.refusals, observed[true])
		assert.Zero(t, reasons[retrybudget.ReasonBudget])
	} else {
		assert.Equal(t, len(journal.retries)+books.outcomes[retrybudget.Abandoned], total(books.outcomes), "grants: what was sent, and what was not")
		assert.Equal(t, reasons[retrybudget.ReasonBudget], books.refusals)
	}
	// The run means nothing if it did not come through here.
	for _, reason := range []retrybudget.Reason{
		retrybudget.ReasonDisabled, retrybudget.ReasonCanceled, retrybudget.ReasonDeadline, retrybudget.ReasonNotRetryable,
		retrybudget.ReasonPushback, retrybudget.ReasonMaxAttempts,
	} {
		assert.Positive(t, reasons[reason], "%v", reason)
	}
}
