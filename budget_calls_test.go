package retrybudget_test

import (
	"fmt"
	"sync"
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

// atOnce is the policy of most tests here: retries without a wait.
func atOnce(attempts int) retrybudget.Option {
	return retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: attempts, Backoff: retrybudget.ConstantBackoff(0)})
}

// bucketed makes a bucket and the option that every call draws from it.
func bucketed(t testing.TB, cfg retrybudget.TokenBucketConfig) (*retrybudget.TokenBucket, retrybudget.Option) {
	t.Helper()
	b := newTokenBucket(t, cfg)
	return b, retrybudget.WithBudget(retrybudget.Shared(b))
}

// calls makes n calls one after the other, each a logical call of its own, and
// returns how many attempts arrived for them.
func calls(t *testing.T, s *rpctest.Server, cc *grpc.ClientConn, n int, opts ...grpc.CallOption) int {
	t.Helper()
	before := s.Attempts("")
	for i := range n {
		_ = rpctest.Call(rpctest.WithCallID(t.Context(), fmt.Sprint(before, "/", i)), cc, opts...)
	}
	return s.Attempts("") - before
}

func TestBudget_oneDepositForEachCall(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice on the connection %v", twice), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				b, budget := bucketed(t, retrybudget.TokenBucketConfig{Capacity: 100, Initial: 50})
				r := newRetrier(t, budget, atOnce(3))
				options := r.DialOptions()
				if twice {
					options = append(options, r.DialOptions()...)
				}
				cc := s.Dial(t, options...)

				assert.Equal(t, 10, calls(t, s, cc, 10))
				assert.Equal(t, int64(51_000), tokensIn(b))

				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
				assert.Equal(t, 20, calls(t, s, cc, 10))
				assert.Equal(t, int64(41_000), tokensIn(b), "a call whose first attempt failed deposits nothing")
			})
		})
	}
}

// However it was emptied, and whatever the mode, a budget comes back with its
// traffic.
func TestBudget_comesBackAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		option  retrybudget.Option
		call    []grpc.CallOption
		healing retrybudget.Mode
	}{
		{"policy", atOnce(3), nil, retrybudget.Enforce},
		{"policy of the method", retrybudget.WithMethodPolicy(rpctest.Method, retrybudget.Policy{MaxAttempts: 3, Backoff: retrybudget.ConstantBackoff(0)}), nil, retrybudget.Enforce},
		{"call options", atOnce(1), []grpc.CallOption{retrybudget.CallMaxAttempts(3)}, retrybudget.Enforce},
		{"retries observed meanwhile", atOnce(3), nil, retrybudget.Observe},
		{"retries off meanwhile", atOnce(3), nil, retrybudget.Off},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				b, budget := bucketed(t, retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10})
				r := newRetrier(t, budget, tt.option)
				cc := s.Dial(t, r.DialOptions()...)

				s.Script(rpctest.Method, rpctest.Unavailable())
				assert.Equal(t, 20+10, calls(t, s, cc, 20, tt.call...))
				assert.Equal(t, int64(0), tokensIn(b))

				require.NoError(t, r.SetMode(tt.healing))
				s.Script(rpctest.Method, rpctest.OK())
				assert.Equal(t, 100, calls(t, s, cc, 100, tt.call...))
				assert.Equal(t, int64(10_000), tokensIn(b))

				require.NoError(t, r.SetMode(retrybudget.Enforce))
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
				assert.Equal(t, 20+10, calls(t, s, cc, 20, tt.call...))
			})
		})
	}
}

// A token bucket spends whatever the retry ends in.
func TestBudget_retriesThatAreAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		b, budget := bucketed(t, retrybudget.TokenBucketConfig{Capacity: 5, Initial: 5})
		cc := s.Dial(t, newRetrier(t, budget, atOnce(2)).DialOptions()...)

		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Fail(codes.NotFound, "none"))
		assert.Equal(t, 5*2, calls(t, s, cc, 5))
		assert.Equal(t, 95, calls(t, s, cc, 95))
		assert.Equal(t, int64(0), tokensIn(b))

		s.Script(rpctest.Method, rpctest.OK())
		assert.Equal(t, 10, calls(t, s, cc, 10))
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		assert.Equal(t, 2+1, calls(t, s, cc, 2), "ten successes buy one retry")
	})
}

// The token is taken when the retry is decided, so that of a thousand calls that
// fail together only as many wait as may go on.
func TestBudget_countsRetriesThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.After(10*time.Millisecond, rpctest.Unavailable()))
		b, budget := bucketed(t, retrybudget.TokenBucketConfig{Capacity: 20, Initial: 20})
		cc := s.Dial(t, newRetrier(t, budget, retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: 2, Backoff: retrybudget.ConstantBackoff(time.Second),
		})).DialOptions()...)
		start := time.Now()
		took := make([]time.Duration, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				err := rpctest.Call(t.Context(), cc)
				took[i] = time.Since(start)
				assert.Equal(t, codes.Unavailable, status.Code(err))
			})
		}
		<-time.After(500 * time.Millisecond)
		assert.Equal(t, int64(0), tokensIn(b))
		wg.Wait()

		asleep := 0
		for _, d := range took {
			if d == 1020*time.Millisecond {
				asleep++
				continue
			}
			assert.Equal(t, 10*time.Millisecond, d)
		}
		assert.Equal(t, 20, asleep)
		assert.Equal(t, n+20, s.Attempts(""))
		assert.Equal(t, int64(0), tokensIn(b))
	})
}

// The number of attempts shows which budget is really wired in.
func TestBudget_isWiredIn(t *testing.T) {
	t.Parallel()
	const n = 1000
	ten := retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10}
	for _, tt := range []struct {
		name     string
		options  []retrybudget.Option
		call     []grpc.CallOption
		attempts int
	}{
		{"none given", []retrybudget.Option{atOnce(4)}, nil, n},
		{"none given, call options", nil, []grpc.CallOption{retrybudget.CallMaxAttempts(4), retrybudget.CallBackoff(retrybudget.ConstantBackoff(0))}, n},
		{"ten tokens", []retrybudget.Option{atOnce(4), retrybudget.WithBudget(retrybudget.PerMethod(ten))}, nil, n + 10},
		{"ten tokens, call options", []retrybudget.Option{retrybudget.WithBudget(retrybudget.PerMethod(ten))}, []grpc.CallOption{
			retrybudget.CallMaxAttempts(4), retrybudget.CallBackoff(retrybudget.ConstantBackoff(0)), retrybudget.CallIdempotency(retrybudget.Idempotent),
			retrybudget.CallRetryableCodes(codes.Unavailable), retrybudget.CallPerAttemptTimeout(time.Second), retrybudget.CallIdempotencyKey("key"),
		}, n + 10},
		{"ten tokens, policy of the method", []retrybudget.Option{
			retrybudget.WithBudget(retrybudget.PerMethod(ten)),
			retrybudget.WithMethodPolicy(rpctest.Method, retrybudget.Policy{MaxAttempts: 4, Backoff: retrybudget.ConstantBackoff(0)}),
		}, nil, n + 10},
		{"unlimited", []retrybudget.Option{atOnce(4), retrybudget.WithBudget(retrybudget.Unlimited())}, nil, 4 * n},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := rpctest.New()
			s.Script(rpctest.Method, rpctest.Unavailable())
			r, err := retrybudget.New(tt.options...)
			require.NoError(t, err)
			assert.Equal(t, tt.attempts, calls(t, s, s.Dial(t, r.DialOptions()...), n, tt.call...))
		})
	}
}

// A hint from further down makes the retry four times as dear.
func TestBudget_hintedRetryCostsFour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.WithTrailer(rpctest.Unavailable(), "retrybudget-exhausted", "1"), rpctest.Unavailable(), rpctest.OK())
		b, budget := bucketed(t, retrybudget.TokenBucketConfig{Initial: 12})
		cc := s.Dial(t, newRetrier(t, budget, atOnce(3)).DialOptions()...)
		assert.Equal(t, 3, calls(t, s, cc, 1))
		assert.Equal(t, int64(7_000), tokensIn(b))
		assert.Equal(t, 3, calls(t, s, cc, 1))
		assert.Equal(t, int64(2_000), tokensIn(b))
		assert.Equal(t, 1, calls(t, s, cc, 1), "two tokens are not enough")
		assert.Equal(t, int64(2_000), tokensIn(b))
	})
}

// Idle time neither fills a token bucket nor freezes it.
func TestBudget_afterIdleTime(t *testing.T) {
	t.Parallel()
	for _, idle := range []time.Duration{time.Hour, 2 * time.Hour, 1000 * time.Hour} {
		t.Run(idle.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				b, budget := bucketed(t, retrybudget.TokenBucketConfig{})
				cc := s.Dial(t, newRetrier(t, budget, atOnce(3)).DialOptions()...)
				assert.Equal(t, 100, calls(t, s, cc, 100))
				<-time.After(idle)
				assert.Equal(t, int64(10_000), tokensIn(b))
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
				for range 20 {
					calls(t, s, cc, 1)
					<-time.After(100 * time.Millisecond)
				}
				assert.Equal(t, 100+20+10, s.Attempts(""))
				s.Script(rpctest.Method, rpctest.OK())
				calls(t, s, cc, 1)
				assert.Equal(t, int64(100), tokensIn(b))
			})
		})
	}
}

// Clients that live for one call get nothing from a bucket of their own that
// starts full; what protects is a shared one, or one that starts empty.
func TestBudget_manySmallClients(t *testing.T) {
	t.Parallel()
	const clients = 1000
	ten := retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10}
	_, shared := bucketed(t, ten)
	for _, tt := range []struct {
		name     string
		budget   retrybudget.Option
		attempts int
	}{
		{"each starts full", retrybudget.WithBudget(retrybudget.PerMethod(ten)), 4 * clients},
		{"one shared", shared, clients + 10},
		{"each starts empty", retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 10})), clients},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := rpctest.New()
			s.Script(rpctest.Method, rpctest.Unavailable())
			cc := s.Dial(t)
			for range clients {
				err := callThrough(t.Context(), newRetrier(t, atOnce(4), tt.budget), cc)
				assert.Equal(t, codes.Unavailable, status.Code(err))
			}
			assert.Equal(t, tt.attempts, s.Attempts(""))
		})
	}
}
