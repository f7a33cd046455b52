package retrybudget_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

const ms = time.Millisecond

// leftOf returns the time that each attempt saw until its deadline.
func leftOf(s *rpctest.Server) []time.Duration {
	var left []time.Duration
	for _, e := range s.Entries("") {
		left = append(left, e.Left)
	}
	return left
}

// after returns ctx with a deadline that d from now.
func after(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestDeadline_noAttemptAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Hang())
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: 6, Backoff: exact(10*ms, 1), RetryableCodes: []codes.Code{codes.Unavailable, codes.DeadlineExceeded},
		}))
		sent := 0
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			sent++
			return a.send(a.ctx)
		})...)
		start := time.Now()

		err := rpctest.Call(after(t, 200*ms), cc)

		assert.Equal(t, 200*ms, time.Since(start))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.Equal(t, 1, sent)
		assert.Equal(t, 1, s.Attempts(""))
		assert.Empty(t, journal.retries)
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDeadline}, journal.reasons())
		assert.Empty(t, ledger.read())
	})
}

// passedDeadline is a context whose deadline has passed while its timer has not
// fired yet.
type passedDeadline struct {
	context.Context //nolint:containedctx // this is a context
	at              time.Time
}

func (p passedDeadline) Deadline() (time.Time, bool) { return p.at, true }

func TestDeadline_countsBeforeItsTimerFires(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithObserver(journal),
					retrybudget.WithPolicy(retrybudget.Policy{Idempotency: retrybudget.Idempotent, Backoff: retrybudget.ConstantBackoff(0)}))
				sent := 0
				answer := status.Error(code, "")
				fails := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					sent++
					return answer
				}

				err := r.UnaryClientInterceptor()(passedDeadline{t.Context(), time.Now()}, rpctest.Method, nil, nil, nil, fails)

				assert.Same(t, answer, err)
				assert.Equal(t, 1, sent)
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDeadline}, journal.reasons())
			})
		})
	}
}

func TestDeadline_waitThatEndsExactlyThenIsNotBegun(t *testing.T) {
	t.Parallel()
	for deadline, attempts := range map[time.Duration]int{
		200 * ms:   2, // the second wait would end exactly then
		200*ms + 1: 3,
		100 * ms:   1,
		100*ms + 1: 2,
	} {
		t.Run(deadline.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				ledger := &budgetLedger{grants: -1}
				r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 9, Backoff: exact(100*ms, 1)}))
				cc := s.Dial(t, r.DialOptions()...)
				start := time.Now()

				err := rpctest.Call(after(t, deadline), cc)

				assert.Equal(t, attempts, s.Attempts(""))
				assert.Equal(t, time.Duration(attempts-1)*100*ms, time.Since(start), "it ends at once")
				assert.Equal(t, codes.Unavailable, status.Code(err), "the server's own error")
				assert.ErrorIs(t, err, retrybudget.ErrDeadline)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				lines := ledger.read()
				assert.Equal(t, fmt.Sprintf("failure Unavailable %d", attempts), lines[len(lines)-1], "no token spent for the last")
			})
		})
	}
}

func TestDeadline_policyTimeoutCutsAttemptsAndWaits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		timeout  time.Duration
		attempts int
		took     time.Duration
		code     codes.Code
	}{
		{time.Second, 2, time.Second, codes.DeadlineExceeded}, // the second attempt starts at 950 ms and is cut
		{900 * ms, 1, 150 * ms, codes.Unavailable},            // 150 + 800 is more
		{1800 * ms, 2, 1100 * ms, codes.Unavailable},          // 1100 + 800 is more
		{0, 3, 2050 * ms, codes.Unavailable},                  // none
	}
	for _, test := range tests {
		t.Run(test.timeout.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.After(150*ms, rpctest.RetryInfo(codes.Unavailable, ms)))
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Timeout: test.timeout, Backoff: exact(800*ms, 1)}))
				cc := s.Dial(t, r.DialOptions()...)
				start := time.Now()

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, test.attempts, s.Attempts(""))
				assert.Equal(t, test.took, time.Since(start))
				assert.Equal(t, test.code, status.Code(err))
				assert.ErrorContains(t, err, "come back later")
				for _, gap := range s.Gaps("") {
					assert.Equal(t, 950*ms, gap)
				}
			})
		})
	}
}

func TestDeadline_policyTimeoutAndTheCallersOwn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		policy, caller time.Duration
		want           time.Duration
	}{
		{"caller has none", 100 * ms, 0, 100 * ms},
		{"caller's is later", 100 * ms, 300 * ms, 100 * ms},
		{"caller's is earlier", 300 * ms, 100 * ms, 100 * ms},
		{"policy has none", 0, 100 * ms, 100 * ms},
		{"neither", 0, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Timeout: test.policy}))
				ctx := t.Context()
				if test.caller > 0 {
					ctx = after(t, test.caller)
				}

				require.NoError(t, rpctest.Call(ctx, s.Dial(t, r.DialOptions()...)))

				assert.Equal(t, []time.Duration{test.want}, leftOf(s))
			})
		})
	}
}

func TestDeadline_timeoutDoesNotReplayTheRestBackToBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 10, Timeout: 100 * ms, Backoff: exact(50*ms, 1)}))
		cc := s.Dial(t, r.DialOptions()...)
		start := time.Now()

		require.Error(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, []time.Duration{50 * ms}, s.Gaps(""))
		assert.Equal(t, 50*ms, time.Since(start))
		<-time.After(time.Minute)
		assert.Equal(t, 2, s.Attempts(""), "nothing follows later")
	})
}

// A budget never lengthens a call, however slowly it is funded.
func TestDeadline_holdsUnderAnyBudget(t *testing.T) {
	t.Parallel()
	const without = 3100 * ms // waits of 100, 200, 400, 800 and 1600 ms; the next would be 3.2 s
	for name, test := range map[string]struct {
		budget retrybudget.BudgetFactory
		took   time.Duration
	}{
		"unlimited":  {retrybudget.Unlimited(), without},
		"20 tokens":  {retrybudget.PerMethod(retrybudget.TokenBucketConfig{Ratio: 0.001, Initial: 20}), without},
		"two tokens": {retrybudget.PerMethod(retrybudget.TokenBucketConfig{Ratio: 0.001, Initial: 2}), 300 * ms},
		"no token":   {retrybudget.PerMethod(retrybudget.TokenBucketConfig{Ratio: 0.001}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				r := newRetrier(t, retrybudget.WithBudget(test.budget), retrybudget.WithPolicy(retrybudget.Policy{
					MaxAttempts: 1_000_000,
					Backoff:     retrybudget.ExponentialBackoff{Initial: 100 * ms, Max: 10 * time.Second, Jitter: retrybudget.JitterNone},
				}))
				cc := s.Dial(t, r.DialOptions()...)
				start := time.Now()

				require.Error(t, rpctest.Call(after(t, 5*time.Second), cc))

				assert.Equal(t, test.took, time.Since(start))
			})
		})
	}
}

// The timeout of a service config is meant for the call; grpc-go applies it to
// each attempt.
func TestDeadline_serviceConfigTimeoutEndsTheCall(t *testing.T) {
	t.Parallel()
	const config = `{"methodConfig":[{"name":[{}],"timeout":"0.100s"}]}`
	tests := []struct {
		name     string
		config   string
		perTry   time.Duration
		attempts int
		reason   retrybudget.Reason
	}{
		{"service config", config, 0, 1, retrybudget.ReasonDeadline},
		{"longer than an attempt's", config, 40 * ms, 3, retrybudget.ReasonMaxAttempts},
		{"shorter than an attempt's", config, 200 * ms, 1, retrybudget.ReasonDeadline},
		{"none", `{}`, 40 * ms, 3, retrybudget.ReasonMaxAttempts},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Hang())
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{
					Idempotency: retrybudget.Idempotent, PerAttemptTimeout: test.perTry, Backoff: exact(ms, 1),
				}))
				cc := s.Dial(t, append(r.DialOptions(), grpc.WithDefaultServiceConfig(test.config))...)

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.Equal(t, test.attempts, s.Attempts(""))
				assert.Equal(t, []retrybudget.Reason{test.reason}, journal.reasons())
				assert.Equal(t, test.reason, errorOf(t, err).Reason)
			})
		})
	}
}
