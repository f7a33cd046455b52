package redis_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// Four processes call a server that is well, and then is not: the attempts that
// arrive are the calls and the retries of one bucket.
func TestCalls_ofFourProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		s := rpctest.New()
		listener := s.Start(t)
		var conns []*grpc.ClientConn
		var retriers []*retrybudget.Retrier
		for range 4 {
			r, err := retrybudget.New(
				retrybudget.WithBudget(w.fleet(t, redis.Config{}).Budget),
				retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 3, Backoff: retrybudget.ConstantBackoff(0)}))
			require.NoError(t, err)
			conns, retriers = append(conns, listener.Dial(t, r.DialOptions()...)), append(retriers, r)
		}
		calls := 0
		call := func(n int) {
			for range n {
				for _, cc := range conns {
					calls++
					_ = rpctest.Call(rpctest.WithCallID(t.Context(), fmt.Sprint(calls)), cc)
				}
				settle(10 * time.Millisecond)
			}
		}
		call(100)
		settle(time.Second)
		assert.Equal(t, calls, s.Attempts(""))
		for _, r := range retriers {
			shown := 0
			for b := range r.Budgets() {
				shown++
				assert.InDelta(t, 20, b.Capacity, 0)
				assert.GreaterOrEqual(t, b.Tokens, 4.0)
			}
			assert.Equal(t, 1, shown)
		}
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "down"))
		call(100)
		assert.Equal(t, calls+20, s.Attempts(""), "the capacity, once for all")
	})
}
