package retrybudget_test

import (
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

// A quota that is used up is not hammered; a server that says when to come back
// is believed, up to a fifth later.
func TestUnary_resourceExhaustedNeedsGuidance(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		step     rpctest.Step
		attempts int
		atLeast  time.Duration
		atMost   time.Duration
	}{
		{"without", rpctest.Fail(codes.ResourceExhausted, "quota"), 1, 0, 0},
		{"RetryInfo", rpctest.RetryInfo(codes.ResourceExhausted, 300*time.Millisecond), 2, 300 * time.Millisecond, 360 * time.Millisecond},
		{"RetryInfo of zero", rpctest.RetryInfo(codes.ResourceExhausted, 0), 1, 0, 0},
		{"pushback", rpctest.Pushback(rpctest.Fail(codes.ResourceExhausted, "quota"), "300"), 2, 300 * time.Millisecond, 300 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.step, rpctest.OK())
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4, Backoff: exact(time.Millisecond, 1)}))
				cc := s.Dial(t, r.DialOptions()...)
				start := time.Now()

				err := rpctest.Call(t.Context(), cc)

				took := time.Since(start)
				require.Equal(t, test.attempts, s.Attempts(""))
				assert.GreaterOrEqual(t, took, test.atLeast)
				assert.LessOrEqual(t, took, test.atMost)
				if test.attempts == 1 {
					assert.Equal(t, codes.ResourceExhausted, status.Code(err))
				} else {
					assert.NoError(t, err)
				}
			})
		})
	}
}

// A write that reached the server before the connection broke may have been
// applied.
func TestUnary_connectionLostAfterTheServerWorked(t *testing.T) {
	t.Parallel()
	for level, attempts := range map[retrybudget.Idempotency]int{
		retrybudget.NonIdempotent: 1,
		retrybudget.Idempotent:    2,
	} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Idempotency: level, Backoff: exact(5*time.Second, 1)}))
				cc, way := s.Start(t).DialCuttable(t, r.DialOptions()...)
				writes := 0
				s.Script(rpctest.Method,
					rpctest.Do(func() { writes++; way.Cut() }, rpctest.Hang()),
					rpctest.Do(func() { writes++ }, rpctest.OK()))

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, attempts, s.Attempts(""))
				assert.Equal(t, attempts, writes)
				if attempts == 1 {
					assert.Equal(t, codes.Unavailable, status.Code(err))
				} else {
					assert.NoError(t, err)
				}
			})
		})
	}
}

// Nothing reached a wire here, but the library cannot know that for every
// UNAVAILABLE, so it makes no exception for non-idempotent methods.
func TestUnary_serverDownBeforeTheCall(t *testing.T) {
	t.Parallel()
	for level, attempts := range map[retrybudget.Idempotency]int{
		retrybudget.NonIdempotent:      1,
		retrybudget.IdempotencyUnknown: 3,
	} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Idempotency: level}))
				sent := 0
				cc, way := s.Start(t).DialCuttable(t, with(r, func(a attemptSeen) error {
					sent++
					return a.send(a.ctx)
				})...)
				way.Down()

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Equal(t, attempts, sent)
				assert.Zero(t, s.Attempts(""))
			})
		})
	}
}

// byCode is a user's Backoff with a base of its own for each kind of error.
type byCode struct{}

func (byCode) Wait(in retrybudget.BackoffInput) time.Duration {
	base := 50 * time.Millisecond
	if in.Code == codes.ResourceExhausted {
		base = time.Second
	}
	return exact(base, 2).Wait(in)
}

func TestUnary_backoffByCodeCountsAllErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		exhausted := rpctest.Fail(codes.ResourceExhausted, "")
		s.Script(rpctest.Method, rpctest.Unavailable(), exhausted, rpctest.Unavailable(), exhausted, rpctest.OK())
		policy := retrybudget.Policy{MaxAttempts: 5, Backoff: byCode{}, RetryableCodes: []codes.Code{codes.Unavailable, codes.ResourceExhausted}}
		l := s.Start(t)

		require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), "five"), l.Dial(t, newRetrier(t, retrybudget.WithPolicy(policy)).DialOptions()...)))

		assert.Equal(t, []time.Duration{50 * time.Millisecond, 2 * time.Second, 200 * time.Millisecond, 8 * time.Second}, s.Gaps("five"))

		policy.MaxAttempts = 4
		err := rpctest.Call(rpctest.WithCallID(t.Context(), "four"), l.Dial(t, newRetrier(t, retrybudget.WithPolicy(policy)).DialOptions()...))
		assert.Equal(t, codes.ResourceExhausted, status.Code(err), "the last error's")
		assert.Equal(t, 4, s.Attempts("four"), "whatever the mix")
	})
}

// The budget is wired in: a dependency that is down gets its calls, and what the
// budget held at the start.
func TestUnary_outageCostsWhatTheBudgetHolds(t *testing.T) {
	t.Parallel()
	ten := retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10}))
	tests := []struct {
		name     string
		opts     []retrybudget.Option
		callOpts []grpc.CallOption
		attempts int
	}{
		{"no options", nil, nil, 1000},
		{"default budget", []retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4})}, nil, 1000},
		{"ten tokens", []retrybudget.Option{ten, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4})}, nil, 1010},
		{"ten tokens, policy of the method", []retrybudget.Option{ten, retrybudget.WithMethodPolicy(rpctest.Method, retrybudget.Policy{MaxAttempts: 4})}, nil, 1010},
		{"ten tokens, call options", []retrybudget.Option{ten}, []grpc.CallOption{
			retrybudget.CallMaxAttempts(4), retrybudget.CallRetryableCodes(codes.Unavailable), retrybudget.CallIdempotency(retrybudget.Idempotent),
		}, 1010},
		{"unlimited", []retrybudget.Option{retrybudget.WithBudget(retrybudget.Unlimited()), retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 2})}, nil, 2000},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				r, err := retrybudget.New(test.opts...)
				require.NoError(t, err)
				cc := s.Dial(t, r.DialOptions()...)

				for i := range 1000 {
					ctx := rpctest.WithCallID(t.Context(), fmt.Sprint(i))
					require.Equal(t, codes.Unavailable, status.Code(rpctest.Call(ctx, cc, test.callOpts...)))
				}

				assert.Equal(t, test.attempts, s.Attempts(""))
			})
		})
	}
}

// A policy is used where it says: a failing call of each kind shows by its
// number of attempts which one that was.
func TestUnary_policyOfMethodThenServiceThenDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		r := newRetrier(t,
			retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 2}),
			retrybudget.WithMethodPolicy("/test.Service/", retrybudget.Policy{MaxAttempts: 4}),
			retrybudget.WithMethodPolicy("/test.Service/Method", retrybudget.Policy{RetryableCodes: []codes.Code{codes.Unavailable}}),
		)
		cc := s.Dial(t, r.DialOptions()...)
		for method, attempts := range map[string]int{
			"/test.Service/Method":        3, // its own, whole: MaxAttempts is the default's 3, not the service's 4
			"/test.Service/Other":         4,
			"/test.Service/":              4,
			"/test.ServiceTwo/Method":     2,
			"/other.test.Service/Method":  2,
			"/test.Service/Method/Nested": 2,
		} {
			s.Script(method, rpctest.Unavailable())
			require.Error(t, rpctest.CallMethod(t.Context(), cc, method))
			assert.Equal(t, attempts, s.AttemptsOf(method), method)
		}
	})
}

// Each of the shorthands has a Retrier, and so a budget, of its own; one Retrier
// on two connections has one.
func TestUnary_shorthandsShareNoBudget(t *testing.T) {
	t.Parallel()
	one := retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 1, Initial: 1}))
	for name, test := range map[string]struct {
		interceptors func(t *testing.T) [2]grpc.UnaryClientInterceptor
		attempts     int
	}{
		"two shorthands": {func(*testing.T) [2]grpc.UnaryClientInterceptor {
			return [2]grpc.UnaryClientInterceptor{retrybudget.UnaryClientInterceptor(one), retrybudget.UnaryClientInterceptor(one)}
		}, 4},
		"one Retrier": {func(t *testing.T) [2]grpc.UnaryClientInterceptor {
			t.Helper()
			r, err := retrybudget.New(one)
			require.NoError(t, err)
			return [2]grpc.UnaryClientInterceptor{r.UnaryClientInterceptor(), r.UnaryClientInterceptor()}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				l := s.Start(t)
				for _, i := range test.interceptors(t) {
					require.Error(t, rpctest.Call(t.Context(), l.Dial(t, grpc.WithUnaryInterceptor(i))))
				}
				assert.Equal(t, test.attempts, s.Attempts(""))
			})
		})
	}
}
