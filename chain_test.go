package retrybudget_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/timeout"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// chained returns the dial options of a chain with the Retrier between two
// interceptors, either of which may be nil.
func chained(r *retrybudget.Retrier, outside, inside grpc.UnaryClientInterceptor) (options []grpc.DialOption) {
	if outside != nil {
		options = append(options, grpc.WithChainUnaryInterceptor(outside))
	}
	options = append(options, r.DialOptions()...)
	if inside != nil {
		options = append(options, grpc.WithChainUnaryInterceptor(inside))
	}
	return options
}

// go-grpc-middleware's logging sees calls from outside and attempts from inside.
func TestChain_logging(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		steps []rpctest.Step
		calls []string // codes of the finished calls that the one outside logs
		tries []string // and of the attempts that the one inside logs
	}{
		{"OK", []rpctest.Step{rpctest.OK()}, []string{"OK"}, []string{"OK"}},
		{"OK at last", []rpctest.Step{rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK()}, []string{"OK"}, []string{"Unavailable", "Unavailable", "OK"}},
		{"attempts used up", []rpctest.Step{rpctest.Unavailable()}, []string{"Unavailable"}, []string{"Unavailable", "Unavailable", "Unavailable"}},
		{"not retryable", []rpctest.Step{rpctest.Fail(codes.NotFound, "")}, []string{"NotFound"}, []string{"NotFound"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				calls, tries := &logLines{}, &logLines{}
				attempt := logging.WithFieldsFromContext(func(ctx context.Context) logging.Fields {
					return logging.Fields{"attempt", retrybudget.AttemptFromContext(ctx)}
				})
				finished := logging.WithLogOnEvents(logging.FinishCall)
				cc := s.Dial(t, chained(newRetrier(t, atOnce(3)),
					logging.UnaryClientInterceptor(calls, finished, attempt),
					logging.UnaryClientInterceptor(tries, finished, attempt))...)
				_ = rpctest.Call(t.Context(), cc)

				assert.Equal(t, len(tt.tries), s.Attempts(""))
				for where, log := range map[string]struct {
					lines []string
					codes []string
				}{"outside": {calls.read(), tt.calls}, "inside": {tries.read(), tt.tries}} {
					require.Len(t, log.lines, len(log.codes), where)
					for i, code := range log.codes {
						assert.Contains(t, log.lines[i], "grpc.code="+code+" ", where)
						number := 1
						if where == "inside" {
							number = i + 1
						}
						assert.Contains(t, log.lines[i], fmt.Sprint("attempt=", number), where)
						assert.Contains(t, log.lines[i], "grpc.service=test.Service", where)
					}
				}
			})
		})
	}
}

// go-grpc-middleware's timeout bounds the call from outside, each attempt from
// inside.
func TestChain_timeout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		outside, inside time.Duration
		level           retrybudget.Idempotency
		steps           []rpctest.Step
		attempts        int
		took            time.Duration
		code            codes.Code
		want            error
	}{
		{"outside, time enough", time.Second, 0, retrybudget.IdempotencyUnknown, []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}, 2, 100 * time.Millisecond, codes.OK, nil},
		{"outside, ends an attempt", time.Second, 0, retrybudget.Idempotent, []rpctest.Step{rpctest.Unavailable(), rpctest.Hang()}, 2, time.Second, codes.DeadlineExceeded, context.DeadlineExceeded},
		{"outside, no time for a wait", 50 * time.Millisecond, 0, retrybudget.IdempotencyUnknown, []rpctest.Step{rpctest.Unavailable()}, 1, 0, codes.Unavailable, retrybudget.ErrDeadline},
		{"inside, not idempotent", 0, 50 * time.Millisecond, retrybudget.IdempotencyUnknown, []rpctest.Step{rpctest.Hang()}, 1, 50 * time.Millisecond, codes.DeadlineExceeded, nil},
		{"inside, idempotent", 0, 50 * time.Millisecond, retrybudget.Idempotent, []rpctest.Step{rpctest.Hang(), rpctest.Hang(), rpctest.OK()}, 3, 300 * time.Millisecond, codes.OK, nil},
		{"both", 230 * time.Millisecond, 50 * time.Millisecond, retrybudget.Idempotent, []rpctest.Step{rpctest.Hang()}, 2, 200 * time.Millisecond, codes.DeadlineExceeded, retrybudget.ErrDeadline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				var outside, inside grpc.UnaryClientInterceptor
				if tt.outside > 0 {
					outside = timeout.UnaryClientInterceptor(tt.outside)
				}
				if tt.inside > 0 {
					inside = timeout.UnaryClientInterceptor(tt.inside)
				}
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Idempotency: tt.level, Backoff: retrybudget.ConstantBackoff(100 * time.Millisecond)}))
				cc := s.Dial(t, chained(r, outside, inside)...)
				start := time.Now()

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, tt.attempts, s.Attempts(""))
				assert.Equal(t, tt.took, time.Since(start))
				assert.Equal(t, tt.code, status.Code(err))
				if tt.want != nil {
					assert.ErrorIs(t, err, tt.want)
				}
				for _, e := range s.Entries("") {
					if tt.inside > 0 {
						assert.LessOrEqual(t, e.Left, tt.inside)
					}
				}
			})
		})
	}
}

// go-grpc-middleware's selector around the interceptor says which methods it
// serves, and one inside it which attempts something else sees.
func TestChain_selector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const chosen, other = "/test.Service/GetThing", "/test.Service/PutThing"
		gets := selector.MatchFunc(func(_ context.Context, c interceptors.CallMeta) bool { return strings.HasPrefix(c.Method, "Get") })
		retriesOnly := selector.MatchFunc(func(ctx context.Context, _ interceptors.CallMeta) bool {
			return retrybudget.AttemptFromContext(ctx) > 1
		})
		s := rpctest.New()
		for _, method := range []string{chosen, other} {
			s.Script(method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		}
		seen := 0
		count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			seen++
			return invoker(ctx, method, req, reply, cc, opts...)
		}
		b, budget := bucketed(t, retrybudget.TokenBucketConfig{Initial: 20})
		r := newRetrier(t, atOnce(3), budget)
		cc := s.Dial(t, grpc.WithChainUnaryInterceptor(
			selector.UnaryClientInterceptor(r.UnaryClientInterceptor(), gets),
			selector.UnaryClientInterceptor(count, retriesOnly),
		))

		require.NoError(t, rpctest.CallMethod(t.Context(), cc, chosen))
		assert.Equal(t, codes.Unavailable, status.Code(rpctest.CallMethod(t.Context(), cc, other)))

		assert.Equal(t, 3, s.AttemptsOf(chosen))
		assert.Equal(t, 1, s.AttemptsOf(other), "not served")
		assert.Equal(t, 2, seen, "the retries")
		assert.Equal(t, int64(18_000), tokensIn(b))
	})
}

// bulkhead is the smallest one: a call has to get a permit first.
func bulkhead(permits chan struct{}) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		select {
		case permits <- struct{}{}:
		default:
			return retrybudget.Final(status.Error(codes.Unavailable, "bulkhead is full"))
		}
		defer func() { <-permits }()
		return invoker(ctx, method, req, reply, cc, opts...)
	}
}

// Outside, the permit is held during waits; inside, it is given back.
func TestChain_bulkhead(t *testing.T) {
	t.Parallel()
	for _, outside := range []bool{true, false} {
		t.Run(fmt.Sprint("outside ", outside), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
				permits := make(chan struct{}, 1)
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(time.Second)}))
				options := chained(r, nil, bulkhead(permits))
				if outside {
					options = chained(r, bulkhead(permits), nil)
				}
				cc := s.Dial(t, options...)
				done := make(chan error)
				go func() { done <- rpctest.Call(rpctest.WithCallID(t.Context(), "waits"), cc) }()
				<-time.After(500 * time.Millisecond) // in the wait

				err := rpctest.CallMethod(t.Context(), cc, "/test.Service/Other")

				if outside {
					assert.ErrorContains(t, err, "bulkhead is full")
				} else {
					assert.NoError(t, err)
				}
				require.NoError(t, <-done)
				assert.Equal(t, 2, s.Attempts("waits"))
				assert.Empty(t, permits)
			})
		})
	}
}
