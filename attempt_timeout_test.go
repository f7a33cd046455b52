package retrybudget_test

import (
	"context"
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

func TestAttemptTimeout_serverSeesTheSmallerOfBoth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		start := time.Now()
		var mu sync.Mutex
		var ended []time.Duration
		s.Script(rpctest.Method, func(ctx context.Context, _ grpc.ServerStream) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, time.Since(start))
			return status.FromContextError(ctx.Err()).Err()
		})
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: 10, Idempotency: retrybudget.Idempotent, PerAttemptTimeout: 100 * ms, Backoff: retrybudget.ConstantBackoff(0),
		}))
		cc := s.Dial(t, r.DialOptions()...)

		err := rpctest.Call(after(t, 250*ms), cc)
		synctest.Wait()

		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "retrybudget: attempt 2 timed out after 100ms")
		assert.NotContains(t, errorOf(t, err).History[2].Err.Error(), "timed out after 100ms", "that was the call's deadline")
		assert.Equal(t, 250*ms, time.Since(start))
		assert.Equal(t, []time.Duration{100 * ms, 100 * ms, 50 * ms}, leftOf(s))
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, []time.Duration{100 * ms, 200 * ms, 250 * ms}, ended)
		assert.Zero(t, s.Live.Load())
	})
}

func TestAttemptTimeout_withoutOneTheServerSeesWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.After(60*ms, rpctest.Unavailable()))
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 3, Backoff: exact(10*ms, 2)}))

		require.Error(t, rpctest.Call(after(t, 250*ms), s.Dial(t, r.DialOptions()...)))

		assert.Equal(t, []time.Duration{250 * ms, 180 * ms, 100 * ms}, leftOf(s))
	})
}

func TestAttemptTimeout_appliesWhereATimeoutCouldBeRetried(t *testing.T) {
	t.Parallel()
	const unknown, idempotent, not = retrybudget.IdempotencyUnknown, retrybudget.Idempotent, retrybudget.NonIdempotent
	onDeadline := []codes.Code{codes.DeadlineExceeded}
	tests := []struct {
		name     string
		policy   retrybudget.Policy
		opts     []grpc.CallOption
		deadline time.Duration // of the call
		left     []time.Duration
	}{
		{"idempotent, the last allowed gets the rest", retrybudget.Policy{Idempotency: idempotent}, nil, time.Second, []time.Duration{100 * ms, 100 * ms, 800 * ms}},
		{"idempotent, no deadline", retrybudget.Policy{Idempotency: idempotent}, nil, 0, []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"unknown", retrybudget.Policy{Idempotency: unknown}, nil, time.Second, []time.Duration{time.Second}},
		{"unknown, no deadline", retrybudget.Policy{Idempotency: unknown}, nil, 0, []time.Duration{100 * ms}},
		{"unknown, listed", retrybudget.Policy{Idempotency: unknown, RetryableCodes: onDeadline}, nil, time.Second, []time.Duration{100 * ms, 100 * ms, 800 * ms}},
		{"non-idempotent", retrybudget.Policy{Idempotency: not, RetryableCodes: onDeadline}, nil, time.Second, []time.Duration{time.Second}},
		{"idempotent, not listed", retrybudget.Policy{Idempotency: idempotent, RetryableCodes: []codes.Code{codes.Unavailable}}, nil, time.Second, []time.Duration{time.Second}},
		{"idempotent, listed for these", retrybudget.Policy{Idempotency: idempotent, RetryableCodes: []codes.Code{codes.Unavailable}, IdempotentCodes: onDeadline}, nil, time.Second, []time.Duration{100 * ms, 100 * ms, 800 * ms}},
		{"MaxAttempts 1", retrybudget.Policy{MaxAttempts: 1, Idempotency: idempotent}, nil, time.Second, []time.Duration{time.Second}},
		{"MaxAttempts 1, no deadline", retrybudget.Policy{MaxAttempts: 1, Idempotency: idempotent}, nil, 0, []time.Duration{100 * ms}},
		{"disabled", retrybudget.Policy{Idempotency: idempotent}, []grpc.CallOption{retrybudget.CallDisabled()}, time.Second, []time.Duration{time.Second}},
		{"set for the call", retrybudget.Policy{Idempotency: idempotent}, []grpc.CallOption{retrybudget.CallPerAttemptTimeout(200 * ms)}, time.Second, []time.Duration{200 * ms, 200 * ms, 600 * ms}},
		{"unset for the call", retrybudget.Policy{Idempotency: idempotent}, []grpc.CallOption{retrybudget.CallPerAttemptTimeout(0)}, time.Second, []time.Duration{time.Second}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Hang())
				test.policy.PerAttemptTimeout = 100 * ms
				test.policy.Backoff = retrybudget.ConstantBackoff(0)
				cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(test.policy)).DialOptions()...)
				ctx := t.Context()
				if test.deadline > 0 {
					ctx = after(t, test.deadline)
				}

				err := rpctest.Call(ctx, cc, test.opts...)

				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.Equal(t, test.left, leftOf(s))
			})
		})
	}
}

func TestAttemptTimeout_isCalledSo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		level    retrybudget.Idempotency
		attempts int
		text     string
	}{
		{"retried", retrybudget.Idempotent, 3, "retrybudget: attempt 3 timed out after 100ms"},
		{"not retryable", retrybudget.IdempotencyUnknown, 1, "retrybudget: attempt 1 timed out after 100ms"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Hang())
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Idempotency: test.level, PerAttemptTimeout: 100 * ms}))
				cc := s.Dial(t, r.DialOptions()...)

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, test.attempts, s.Attempts(""))
				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.Equal(t, test.text, status.Convert(err).Message())
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

func TestAttemptTimeout_isNotBlamedForTheCallsDeadline(t *testing.T) {
	t.Parallel()
	for name, deadline := range map[string]time.Duration{"earlier": 50 * ms, "at the same time": 100 * ms} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Hang())
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Idempotency: retrybudget.Idempotent, PerAttemptTimeout: 100 * ms}))
				var inner error
				cc := s.Dial(t, with(r, func(a attemptSeen) error {
					inner = a.send(a.ctx)
					return inner
				})...)

				err := rpctest.Call(after(t, deadline), cc)

				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.Same(t, inner, err)
				assert.Equal(t, 1, s.Attempts(""))
			})
		})
	}
}

// An interceptor further in, or a server that answers late, may end an attempt
// whose time is up in ways of their own.
func TestAttemptTimeout_whateverTheAttemptReturns(t *testing.T) {
	t.Parallel()
	for name, returned := range map[string]error{
		"raw deadline": context.DeadlineExceeded,
		"raw cancel":   context.Canceled,
		"CANCELLED":    status.Error(codes.Canceled, "context canceled"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ledger := &budgetLedger{grants: -1}
				r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{
					MaxAttempts: 2, Idempotency: retrybudget.Idempotent, PerAttemptTimeout: 100 * ms,
				}))
				cc := rpctest.New().Dial(t, with(r, func(a attemptSeen) error {
					<-a.ctx.Done()
					return returned
				})...)

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.ErrorContains(t, err, "attempt 2 timed out after 100ms")
				assert.Equal(t, []string{
					"failure DeadlineExceeded 1", "grant DeadlineExceeded 1", "settle DeadlineExceeded 1 failed", "failure DeadlineExceeded 2",
				}, ledger.read())
			})
		})
	}
}

func TestAttemptTimeout_doesNotTouchAnAttemptThatEndedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.After(99*ms, rpctest.OK()))
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Idempotency: retrybudget.Idempotent, PerAttemptTimeout: 100 * ms}))

		require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		assert.Equal(t, 1, s.Attempts(""))
	})
}
