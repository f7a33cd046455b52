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

// sharedAdaptive makes a budget and the option that every call draws from it.
func sharedAdaptive(t testing.TB) (*retrybudget.AdaptiveBudget, retrybudget.Option) {
	t.Helper()
	b := newAdaptive(t, retrybudget.AdaptiveConfig{})
	return b, retrybudget.WithBudget(retrybudget.Shared(b))
}

// A retry that is answered, if only with NOT_FOUND, did what it was for.
func TestAdaptive_answeredRetriesAreFree(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]rpctest.Step{"OK": rpctest.OK(), "NOT_FOUND": rpctest.Fail(codes.NotFound, "none")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable(), answer)
				b, budget := sharedAdaptive(t)
				cc := s.Dial(t, newRetrier(t, budget, atOnce(2)).DialOptions()...)
				assert.Equal(t, 200, calls(t, s, cc, 100))
				assert.Equal(t, int64(2*aToken), microsIn(b))
			})
		})
	}
}

func TestAdaptive_failedRetriesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		b, budget := sharedAdaptive(t)
		cc := s.Dial(t, newRetrier(t, budget, atOnce(4)).DialOptions()...)
		s.Script(rpctest.Method, rpctest.Unavailable())
		assert.Equal(t, 1000+2, calls(t, s, cc, 1000))
		assert.Equal(t, int64(0), microsIn(b))
		s.Script(rpctest.Method, rpctest.OK())
		assert.Equal(t, 10, calls(t, s, cc, 10))
		s.Script(rpctest.Method, rpctest.Unavailable())
		assert.Equal(t, 10+1, calls(t, s, cc, 10), "ten successes pay for one")
	})
}

// Deposits are per call: not per attempt, nor per layer.
func TestAdaptive_oneDepositForEachCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		b, budget := sharedAdaptive(t)
		r := newRetrier(t, budget, atOnce(3))
		cc := s.Dial(t, append(r.DialOptions(), r.DialOptions()...)...)
		calls(t, s, cc, 10)
		assert.Equal(t, int64(3*aToken), microsIn(b))
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		calls(t, s, cc, 10)
		assert.Equal(t, int64(3*aToken), microsIn(b), "a call whose first attempt failed deposits nothing")
	})
}

// An overdrawn budget refuses retries; first attempts it cannot delay.
func TestAdaptive_firstAttemptsAreNeverHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.WithTrailer(rpctest.Unavailable(), "retrybudget-exhausted", "1"))
		b, budget := sharedAdaptive(t)
		cc := s.Dial(t, newRetrier(t, budget, atOnce(3)).DialOptions()...)
		assert.Equal(t, 2, calls(t, s, cc, 1))
		assert.Equal(t, int64(-2*aToken), microsIn(b))
		start := time.Now()
		assert.Equal(t, 1000, calls(t, s, cc, 1000))
		s.Script(rpctest.Method, rpctest.OK())
		assert.Equal(t, 1000, calls(t, s, cc, 1000))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, int64(98*aToken), microsIn(b))
	})
}

// Permission was used: a wait that the caller ends gives nothing back.
func TestAdaptive_cancelledWaitGivesNothingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		b, budget := sharedAdaptive(t)
		cc := s.Dial(t, newRetrier(t, budget, retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(time.Hour)})).DialOptions()...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		require.Equal(t, codes.Canceled, status.Code(rpctest.Call(ctx, cc)))
		assert.Equal(t, 1, s.Attempts(""))
		assert.Equal(t, int64(aToken), microsIn(b))
	})
}

func TestAdaptive_oneBrokenMethodLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const broken, healthy, namesake = "/a.Service/Broken", "/a.Service/Healthy", "/b.Service/Broken"
		s := rpctest.New()
		s.Script(broken, rpctest.Unavailable())
		s.Script(healthy, rpctest.Unavailable(), rpctest.OK())
		s.Script(namesake, rpctest.Unavailable(), rpctest.OK())
		cc := s.Dial(t, newRetrier(t, retrybudget.WithBudget(retrybudget.Adaptive()), atOnce(2)).DialOptions()...)
		call := func(method string, i int) error {
			return rpctest.CallMethod(rpctest.WithCallID(t.Context(), fmt.Sprint(i)), cc, method)
		}
		for i := range 1000 {
			require.Error(t, call(broken, i))
			if i%100 == 0 {
				assert.NoError(t, call(healthy, i))
				assert.NoError(t, call(namesake, i))
			}
		}
		assert.Equal(t, 1000+2, s.AttemptsOf(broken), "its own reserve")
		assert.Equal(t, 2*10, s.AttemptsOf(healthy))
		assert.Equal(t, 2*10, s.AttemptsOf(namesake))
	})
}

// Many methods that fail together share the target's reserve.
func TestAdaptive_manyMethodsOfOneTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		cc := s.Dial(t, newRetrier(t, retrybudget.WithBudget(retrybudget.Adaptive()), atOnce(3)).DialOptions()...)
		for i := range 20 {
			method := fmt.Sprintf("/a.Service/Method%d", i)
			s.Script(method, rpctest.Unavailable())
			for range 10 {
				require.Error(t, rpctest.CallMethod(t.Context(), cc, method))
			}
		}
		assert.Equal(t, 200+3, s.Attempts(""))
	})
}

func TestAdaptive_manySmallClients(t *testing.T) {
	t.Parallel()
	const clients = 1000
	_, shared := sharedAdaptive(t)
	for _, tt := range []struct {
		name     string
		budget   func() retrybudget.Option
		attempts int
	}{
		{"each its own", func() retrybudget.Option { return retrybudget.WithBudget(retrybudget.Adaptive()) }, 3 * clients}, // which is what a reserve costs
		{"one shared", func() retrybudget.Option { return shared }, clients + 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := rpctest.New()
			s.Script(rpctest.Method, rpctest.Unavailable())
			cc := s.Dial(t)
			for range clients {
				err := callThrough(t.Context(), newRetrier(t, atOnce(4), tt.budget()), cc)
				assert.Equal(t, codes.Unavailable, status.Code(err))
			}
			assert.Equal(t, tt.attempts, s.Attempts(""))
		})
	}
}

// Names that others choose can neither fill the memory nor refill a budget. Not
// in parallel with others: it measures the heap.
func TestAdaptive_manyMethodNames(t *testing.T) {
	for _, tt := range []struct{ keys, names int }{{1024, 5_000}, {100, 100_000}} {
		r := newRetrier(t, retrybudget.WithBudget(retrybudget.Adaptive()), retrybudget.WithMaxKeys(tt.keys), atOnce(3))
		client := r.UnaryClientInterceptor()
		attempts := 0
		call := func(method string, code codes.Code) {
			err := client(t.Context(), method, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				attempts++
				return status.Error(code, "")
			})
			require.Equal(t, code, status.Code(err))
		}
		const drained = "/a.Service/Drained"
		call(drained, codes.Unavailable)
		require.Equal(t, 3, attempts, "its reserve")

		before := heap()
		for i := range tt.names {
			call(fmt.Sprintf("/a.Service/Method%d", i), codes.Unimplemented)
		}
		assert.Less(t, heap()-before, int64(tt.keys+20)*1024, "more than 1 KiB for each key")
		assert.Equal(t, 3+tt.names, attempts)
		seen := 0
		for range r.Budgets() {
			seen++
		}
		assert.LessOrEqual(t, seen, tt.keys+1)

		attempts = 0
		call(drained, codes.Unavailable)
		assert.Equal(t, 1, attempts, "not refilled by the names that came between")
		for i := range 2 * tt.keys {
			call(fmt.Sprintf("/b.Service/Method%d", i), codes.Unavailable)
		}
		// The target's bucket, which no name can get around: one token was left.
		assert.Equal(t, 1+2*tt.keys+1, attempts)
	}
}
