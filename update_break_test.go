package retrybudget_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// Fewer keys than there are methods: the ones that go must not be those that
// spent their tokens, or they come back full.
func TestUpdateBreak_fewerKeysRefillNothing(t *testing.T) {
	t.Parallel()
	const policy = "default_policy {constant_backoff {} max_attempts: 1000} "
	r := updatable(t, policy+"budgets {token_bucket {capacity: 20 initial: 20}} limits {max_keys: 20}")
	for i := range 10 {
		require.Equal(t, 21, callName(t.Context(), r, fmt.Sprint("/drained/", i), codes.Unavailable))
		callName(t.Context(), r, fmt.Sprint("/full/", i), codes.NotFound)
	}

	update(t, r, policy+"budgets {token_bucket {capacity: 30 initial: 30}} limits {max_keys: 10}")

	retries := 0
	for i := range 10 {
		retries += callName(t.Context(), r, fmt.Sprint("/drained/", i), codes.Unavailable) - 1
	}
	assert.LessOrEqual(t, retries, 30, "at most the one budget of all names without room")
}

// Methods that are called for the first time while an Update is under way do not
// get their first tokens twice.
func TestUpdateBreak_newNamesMeanwhile(t *testing.T) {
	t.Parallel()
	const policy = "default_policy {constant_backoff {} max_attempts: 1000} limits {max_keys: 200000} "
	r := updatable(t, policy+"budgets {token_bucket {capacity: 20 initial: 20}}")
	for i := range 3000 {
		callName(t.Context(), r, fmt.Sprint("/old/", i), codes.NotFound)
	}
	var done atomic.Bool
	retries := map[string]int{}
	parallel(2, func(g int) {
		if g == 0 {
			update(t, r, policy+"budgets {token_bucket {capacity: 20 initial: 20 ratio: 0.2}}")
			done.Store(true)
			return
		}
		for i := 0; !done.Load(); i++ {
			name := fmt.Sprint("/new/", i)
			retries[name] = callName(t.Context(), r, name, codes.Unavailable) - 1
		}
	})
	for name, n := range retries {
		assert.LessOrEqual(t, n+callName(t.Context(), r, name, codes.Unavailable)-1, 20, name)
	}
}

// Whoever looks at budgets while they are replaced does not see them empty.
func TestUpdateBreak_budgetsReplacedWhileShown(t *testing.T) {
	t.Parallel()
	r := updatable(t, "budgets {token_bucket {capacity: 20 initial: 10}}")
	for _, m := range []string{"/a/a", "/b/b", "/c/c", "/d/d"} {
		callName(t.Context(), r, m, codes.NotFound)
	}
	var once sync.Once
	for b := range r.Budgets() {
		assert.InDelta(t, 0.5, b.Tokens/b.Capacity, 0.001, b.Method)
		once.Do(func() { update(t, r, "budgets {token_bucket {capacity: 40}}") })
	}
}

// callingObserver calls a function whenever something happens.
type callingObserver struct{ f func() }

func (o callingObserver) RetrySent(retrybudget.RetryEvent)      { o.f() }
func (o callingObserver) RetryRefused(retrybudget.RefusalEvent) { o.f() }
func (o callingObserver) CallEnded(retrybudget.CallEvent)       { o.f() }
func (o callingObserver) Warned(retrybudget.WarningEvent)       { o.f() }

// Update may be called from wherever the library calls the application.
func TestUpdateBreak_fromWithinCallbacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r *retrybudget.Retrier
		n := 0
		again := func() {
			n++
			update(t, r, fmt.Sprintf("default_policy {max_attempts: 4} budgets {token_bucket {capacity: %d initial: 20}}", 20+n))
			assert.NoError(t, r.SetMode(retrybudget.Enforce))
			for range r.Budgets() {
				update(t, r, fmt.Sprintf("budgets {scope: SCOPE_PER_TARGET token_bucket {capacity: %d initial: 20}}", 20+n))
			}
		}
		r = updatable(t, "default_policy {max_attempts: 4} budgets {token_bucket {initial: 20}}",
			retrybudget.WithObserver(callingObserver{again}),
			retrybudget.WithClassifier(func(retrybudget.CallInfo, error) retrybudget.Verdict {
				again()
				return retrybudget.ByDefault
			}),
			retrybudget.WithSuccess(func(retrybudget.CallInfo, error) bool {
				again()
				return false
			}))
		s := streamServer(t, failing(unavailable("x")), failing(unavailable("x")), sending(nil, "m"))
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.Fail(codes.NotFound, "x"))
		cc := s.Dial(t, r.DialOptions()...)
		require.Error(t, rpctest.Call(t.Context(), cc))
		cs := open(t.Context(), t, cc, bidiStream)
		sendAll(t, cs, "a")
		got, err := recvOne(cs)
		require.NoError(t, err)
		assert.Equal(t, "m", got)
		assert.Len(t, s.Entries(""), 6)
		assert.Greater(t, n, 8)
	})
}

// A mode set by hand is never lost to an Update that runs at the same time.
func TestUpdateBreak_besideSetMode(t *testing.T) {
	t.Parallel()
	for i := range 100 {
		r := updatable(t, "budgets {unlimited {}} default_policy {constant_backoff {}}")
		parallel(3, func(g int) {
			switch g {
			case 0:
				update(t, r, fmt.Sprint("budgets {unlimited {}} default_policy {constant_backoff {} max_attempts: ", 2+i%3, "}"))
			case 1:
				assert.NoError(t, r.SetMode(retrybudget.Off))
			default:
				callName(t.Context(), r, "/a/a", codes.Unavailable)
			}
		})
		require.Equal(t, 1, callName(t.Context(), r, "/a/a", codes.Unavailable))
	}
}

// Calls and streams in their wait while budgets of all kinds and scopes come and
// go: each goes on at its time, and nothing is held in the end.
func TestUpdateBreak_whileAllWait(t *testing.T) {
	t.Parallel()
	kinds := []string{
		"token_bucket {capacity: 50 initial: 50}", "token_bucket {capacity: 10 initial: 10}",
		"adaptive {reserve: 50}", "adaptive {reserve: 3 leak {nanos: 1000000}}",
		"throttle {max_tokens: 100 token_ratio: 0.1}", "throttle {max_tokens: 300 token_ratio: 10}",
	}
	scopes := []string{"SCOPE_PER_METHOD", "SCOPE_PER_SERVICE", "SCOPE_PER_TARGET", "SCOPE_SHARED"}
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")), failing(unavailable("x")), collecting)
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		const policy = "default_policy {constant_backoff {seconds: 10}} mode: MODE_OBSERVE "
		r := updatable(t, policy)
		cc := s.Dial(t, r.DialOptions()...)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				ctx := rpctest.WithCallID(t.Context(), fmt.Sprint(i))
				if i%2 == 0 {
					assert.NoError(t, rpctest.Call(ctx, cc))
				} else {
					cs := open(ctx, t, cc, clientStream)
					sendAll(t, cs, "a", "b")
					got, err := recvOne(cs)
					assert.NoError(t, err)
					assert.Equal(t, "ab", got)
				}
				assert.Equal(t, 20*time.Second, time.Since(start))
			})
		}
		for i := range 24 {
			<-time.After(time.Second * 4 / 5)
			update(t, r, fmt.Sprintf("%s budgets {scope: %s %s} budgets {scope: %s %s}", policy, scopes[i%4], kinds[i%6], scopes[(i+1)%4], kinds[(i+3)%6]))
			for _, b := range budgetsOf(r) {
				assert.GreaterOrEqual(t, b.Tokens, -5.0)
				assert.LessOrEqual(t, b.Tokens, b.Capacity)
			}
		}
		wg.Wait()
		assert.Zero(t, r.ReplayBytes())
	})
}

// A Config may be used again for something else once Update returned.
func TestUpdateBreak_cfgIsNotKept(t *testing.T) {
	t.Parallel()
	const text = "default_policy {constant_backoff {} retryable_codes: CODE_UNAVAILABLE} budgets {token_bucket {capacity: 10 initial: 10}}"
	cfg := configOf(t, text)
	r := updatable(t, "")
	require.NoError(t, r.Update(cfg))
	require.Equal(t, 3, callName(t.Context(), r, "/a/a", codes.Unavailable))

	cfg.GetBudgets()[0].GetTokenBucket().Capacity = nil
	cfg.GetDefaultPolicy().GetRetryableCodes()[0]++

	assert.Equal(t, 3, callName(t.Context(), r, "/a/a", codes.Unavailable))
	update(t, r, text)
	assert.Equal(t, []retrybudget.BudgetInfo{{Method: "/a/a", Tokens: 6, Capacity: 10}}, budgetsOf(r))
}

// A factory that panics does so in the call that needs a budget, and harms none
// that follow.
func TestUpdateBreak_factoryPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := false
		r := newRetrier(t, retrybudget.WithBudget(func(string, string) (retrybudget.Budget, error) {
			if broken {
				panic("broken")
			}
			return ownTokens(100), nil
		}))
		s := streamServer(t, failing(unavailable("x")), sending(nil, "m"))
		cc := s.Dial(t, r.DialOptions()...)
		broken = true
		assert.Equal(t, "broken", panicOf(func() { _ = rpctest.Call(t.Context(), cc) }))
		assert.Equal(t, "broken", panicOf(func() { _, _ = cc.NewStream(t.Context(), bidiStream, streamMethod) }))
		broken = false
		assert.NoError(t, rpctest.Call(t.Context(), cc))
		cs := open(t.Context(), t, cc, bidiStream)
		sendAll(t, cs, "a")
		_, err := recvOne(cs)
		assert.NoError(t, err)
		assert.Zero(t, r.ReplayBytes())
	})
}
