package retrybudget_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// countingContext is a context that counts what waits for its end: contexts
// derived from it that were not released, and with them their timers.
type countingContext struct {
	context.Context //nolint:containedctx // this is a context
	cancel          context.CancelFunc
	done            chan struct{}

	mu      sync.Mutex
	live    int
	derived int
}

func newCountingContext(parent context.Context) *countingContext {
	c := &countingContext{done: make(chan struct{})}
	c.Context, c.cancel = context.WithCancel(parent)
	context.AfterFunc(c.Context, func() { close(c.done) })
	return c
}

// Done returns a channel of its own, so that package context does not look
// through to the context inside and registers derived contexts by AfterFunc.
func (c *countingContext) Done() <-chan struct{} { return c.done }

// AfterFunc is how package context registers a derived context.
func (c *countingContext) AfterFunc(f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live++
	c.derived++
	stop := context.AfterFunc(c.Context, f)
	var once sync.Once
	return func() bool {
		once.Do(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.live--
		})
		return stop()
	}
}

func (c *countingContext) counts() (live, derived int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live, c.derived
}

func TestWait_cancelledLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: 5, Backoff: exact(time.Hour, 2), PerAttemptTimeout: time.Hour, Idempotency: retrybudget.Idempotent,
		}))
		cc := s.Dial(t, r.DialOptions()...)
		start := time.Now()

		const calls = 1000
		for range calls {
			parent := newCountingContext(t.Context())
			time.AfterFunc(time.Millisecond, parent.cancel)
			err := rpctest.Call(parent, cc)
			synctest.Wait()
			live, derived := parent.counts()
			require.Equal(t, codes.Canceled, status.Code(err))
			require.GreaterOrEqual(t, derived, 2, "at least the attempt's and the wait's")
			require.Zero(t, live)
		}

		assert.Equal(t, calls*time.Millisecond, time.Since(start))
		assert.Equal(t, calls, s.Attempts(""))
		assert.Zero(t, s.Live.Load())
	})
}

func TestWait_finishedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]rpctest.Step{
		"OK after retries":   {rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK()},
		"attempts exhausted": {rpctest.Unavailable()},
		"attempt timeouts":   {rpctest.Hang()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, steps...)
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
					Backoff: exact(time.Second, 2), PerAttemptTimeout: time.Minute, Timeout: time.Hour, Idempotency: retrybudget.Idempotent,
				}))
				cc := s.Dial(t, r.DialOptions()...)
				parent := newCountingContext(t.Context())
				defer parent.cancel()

				_ = rpctest.Call(parent, cc) // how it ends does not matter here
				synctest.Wait()

				live, derived := parent.counts()
				assert.Equal(t, 3, s.Attempts(""))
				assert.Equal(t, 1, derived, "the call's, with the deadline of the policy")
				assert.Zero(t, live)
				assert.Zero(t, s.Live.Load())
			})
		})
	}
}

// A wait of nothing still looks at the caller before it sends.
func TestWait_zeroStillSeesTheCallersCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ledger := &budgetLedger{grants: -1}
		r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{
			BackoffFunc: func(context.Context, uint) time.Duration {
				cancel()
				return 0
			},
		}))

		err := rpctest.Call(ctx, s.Dial(t, r.DialOptions()...))

		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, s.Attempts(""))
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 abandoned"}, ledger.read())
	})
}

func TestWait_zeroBackoffRetriesAtOnceWithinTheBudget(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"zero": 0, "negative": -time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				ledger := &budgetLedger{grants: 2}
				r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{
					MaxAttempts: 100, BackoffFunc: func(context.Context, uint) time.Duration { return wait },
				}))
				start := time.Now()

				err := rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...))

				assert.ErrorIs(t, err, retrybudget.ErrBudgetExhausted)
				assert.Equal(t, 3, s.Attempts(""))
				assert.Zero(t, time.Since(start))
			})
		})
	}
}
