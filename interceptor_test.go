package retrybudget_test

import (
	"context"
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

// newRetrier returns a Retrier with an unlimited budget unless opts say
// otherwise.
func newRetrier(t testing.TB, opts ...retrybudget.Option) *retrybudget.Retrier {
	t.Helper()
	r, err := retrybudget.New(append([]retrybudget.Option{retrybudget.WithBudget(retrybudget.Unlimited())}, opts...)...)
	require.NoError(t, err)
	return r
}

// exact is a backoff without chance.
func exact(initial time.Duration, multiplier float64) retrybudget.Backoff {
	return retrybudget.ExponentialBackoff{Initial: initial, Multiplier: multiplier, Max: retrybudget.NoMaxBackoff, Jitter: retrybudget.JitterNone}
}

func TestUnary_retriesUntilSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*time.Millisecond, 2)}))
		cc := s.Dial(t, r.DialOptions()...)

		require.NoError(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, s.Gaps(""))
		var headers [][]string
		for _, e := range s.Entries("") {
			headers = append(headers, e.MD.Get("grpc-previous-rpc-attempts"))
		}
		assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, headers)
	})
}

func TestUnary_keepsTheLastErrorWhenTimeRunsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"))
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 10, Backoff: retrybudget.ConstantBackoff(100 * time.Millisecond)}))
		cc := s.Dial(t, r.DialOptions()...)
		ctx, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
		defer cancel()
		start := time.Now()

		err := rpctest.Call(ctx, cc)

		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorIs(t, err, retrybudget.ErrDeadline)
		assert.ErrorContains(t, err, "shard 7 down")
		assert.ErrorContains(t, err, "4 attempts")
		assert.Equal(t, 4, s.Attempts(""))
	})
}

func TestUnary_twiceOnOneConnectionRetriesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		r := newRetrier(t)
		cc := s.Dial(t, append(r.DialOptions(), grpc.WithChainUnaryInterceptor(r.UnaryClientInterceptor()))...)

		require.Error(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, 3, s.Attempts(""))
	})
}
