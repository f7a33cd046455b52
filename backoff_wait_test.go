package retrybudget_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// millis makes durations of milliseconds.
func millis(values ...int) []time.Duration {
	var of []time.Duration
	for _, v := range values {
		of = append(of, time.Duration(v)*time.Millisecond)
	}
	return of
}

// backoffFunc is a Backoff made of a function.
type backoffFunc func(retrybudget.BackoffInput) time.Duration

func (f backoffFunc) Wait(in retrybudget.BackoffInput) time.Duration { return f(in) }

// callThrough makes one call on cc, which has no interceptor, through r: many
// clients on one connection.
func callThrough(ctx context.Context, r *retrybudget.Retrier, cc *grpc.ClientConn) error {
	send := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		return cc.Invoke(ctx, method, req, reply, opts...)
	}
	var reply wrapperspb.StringValue
	return r.UnaryClientInterceptor()(ctx, rpctest.Method, wrapperspb.String("hello"), &reply, cc, send)
}

func TestBackoff_waitsOnTheWire(t *testing.T) {
	t.Parallel()
	unavailable := rpctest.Unavailable()
	for _, tt := range []struct {
		name  string
		steps []rpctest.Step
		waits []time.Duration
	}{
		{"grows", []rpctest.Step{unavailable, unavailable, unavailable, rpctest.OK()}, millis(100, 200, 400)},
		{"starts again after a pushback", []rpctest.Step{unavailable, unavailable, rpctest.Pushback(unavailable, "700"), unavailable, unavailable, rpctest.OK()}, millis(100, 200, 700, 100, 200)},
		{"starts again after a pushback of zero", []rpctest.Step{unavailable, unavailable, rpctest.Pushback(unavailable, "0"), unavailable, rpctest.OK()}, millis(100, 200, 0, 100)},
		{"no details", []rpctest.Step{rpctest.Fail(codes.Unavailable, ""), rpctest.OK()}, millis(100)},
		{"RetryInfo of zero", []rpctest.Step{rpctest.RetryInfo(codes.Unavailable, 0), rpctest.OK()}, millis(100)},
		{"negative RetryInfo", []rpctest.Step{rpctest.RetryInfo(codes.Unavailable, -5*time.Second), rpctest.OK()}, millis(100)},
		{"RetryInfo below the backoff", []rpctest.Step{rpctest.RetryInfo(codes.Unavailable, 80*time.Millisecond), rpctest.OK()}, millis(100)},
		{"pushback of zero", []rpctest.Step{rpctest.Pushback(unavailable, "0"), rpctest.OK()}, millis(0)},
		{"pushback below the backoff", []rpctest.Step{rpctest.Pushback(unavailable, "50"), rpctest.OK()}, millis(50)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 6, Backoff: exact(100*time.Millisecond, 2)}))
				cc := s.Dial(t, r.DialOptions()...)
				require.NoError(t, rpctest.Call(t.Context(), cc))
				assert.Equal(t, tt.waits, s.Gaps(""))
			})
		})
	}
}

func TestBackoff_nothingCarriesOverToTheNextCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*time.Millisecond, 2)}))
		cc := s.Dial(t, r.DialOptions()...)
		for _, id := range []string{"first", "second"} {
			require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), id), cc))
			assert.Equal(t, millis(100, 200), s.Gaps(id))
		}
	})
}

// A zero wait is no way around attempts, budget and context.
func TestBackoff_zeroStillLooksAtEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		bucket, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{Initial: 5})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r := newRetrier(t, retrybudget.WithBudget(retrybudget.Shared(bucket)), retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: 100,
			Backoff: backoffFunc(func(in retrybudget.BackoffInput) time.Duration {
				if in.Retry == 4 {
					cancel()
				}
				return 0
			}),
		}))
		cc := s.Dial(t, r.DialOptions()...)

		err = rpctest.Call(ctx, cc)

		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 4, s.Attempts(""), "the fourth retry is not sent")
		tokens, _ := bucket.Level()
		assert.InDelta(t, 1, tokens, 0, "but was granted")
	})
}

// The retry number grows over all kinds of errors, the base is that of the last.
func TestBackoff_ownChoiceByCode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		unavailable, exhausted := rpctest.Unavailable(), rpctest.Fail(codes.ResourceExhausted, "quota")
		s.Script(rpctest.Method, unavailable, exhausted, unavailable, exhausted, rpctest.OK())
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts:    5,
			RetryableCodes: []codes.Code{codes.Unavailable, codes.ResourceExhausted},
			Backoff: backoffFunc(func(in retrybudget.BackoffInput) time.Duration {
				base := 50 * time.Millisecond
				if in.Code == codes.ResourceExhausted {
					base = time.Second
				}
				return exact(base, 2).Wait(in)
			}),
		}))
		cc := s.Dial(t, r.DialOptions()...)
		require.NoError(t, rpctest.Call(t.Context(), cc))
		assert.Equal(t, millis(50, 2000, 200, 8000), s.Gaps(""))
	})
}

func TestBackoff_seesTheFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method,
			rpctest.Fail(codes.Unavailable, "one"), rpctest.Fail(codes.Aborted, "two"), rpctest.Unavailable(),
			rpctest.Pushback(rpctest.Unavailable(), "5"), rpctest.Fail(codes.Unavailable, "five"), rpctest.OK())
		type seen struct {
			retry    int
			previous time.Duration
			code     codes.Code
			attempt  int
			text     string
		}
		var inputs []seen
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: 6, Idempotency: retrybudget.Idempotent,
			Backoff: backoffFunc(func(in retrybudget.BackoffInput) time.Duration {
				inputs = append(inputs, seen{in.Retry, in.Previous, in.Code, in.Call.Attempt, in.Err.Error()})
				assert.Equal(t, rpctest.Method, in.Call.Method)
				assert.Equal(t, retrybudget.Idempotent, in.Call.Idempotency)
				return time.Duration(2-in.Retry) * time.Second // 1 s, 0 s, -1 s
			}),
		}))
		cc := s.Dial(t, r.DialOptions()...)
		require.NoError(t, rpctest.Call(t.Context(), cc))

		const text = "rpc error: code = Unavailable desc = "
		assert.Equal(t, []seen{
			{1, 0, codes.Unavailable, 1, text + "one"},
			{2, time.Second, codes.Aborted, 2, "rpc error: code = Aborted desc = two"},
			{3, 0, codes.Unavailable, 3, text + "unavailable"},
			{1, 0, codes.Unavailable, 5, text + "five"}, // after the pushback
		}, inputs)
		assert.Equal(t, millis(1000, 0, 0, 5, 1000), s.Gaps(""), "a negative wait is none")
	})
}

func TestBackoff_negativePreviousCountsAsZero(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		var previous []time.Duration
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: backoffFunc(func(in retrybudget.BackoffInput) time.Duration {
			previous = append(previous, in.Previous)
			return -time.Hour
		})}))
		cc := s.Dial(t, r.DialOptions()...)
		require.NoError(t, rpctest.Call(t.Context(), cc))
		assert.Equal(t, millis(0, 0), previous)
	})
}

// The functions of go-grpc-middleware fit as they are.
func TestBackoffFunc_ofGoGrpcMiddleware(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		f     retrybudget.BackoffFunc
		waits []time.Duration
	}{
		{"linear", middleware.BackoffLinear(70 * time.Millisecond), millis(70, 70, 70)},
		{"exponential", middleware.BackoffExponential(70 * time.Millisecond), millis(70, 140, 280)},
		{"own", func(_ context.Context, retry uint) time.Duration { return time.Duration(retry) * time.Second }, millis(1000, 2000, 3000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				policy := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4, BackoffFunc: tt.f}))
				option := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4}))
				l := s.Start(t)
				require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "policy"), l.Dial(t, policy.DialOptions()...)))
				require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "option"), l.Dial(t, option.DialOptions()...), retrybudget.CallBackoffFunc(tt.f)))
				assert.Equal(t, tt.waits, s.Gaps("policy"))
				assert.Equal(t, tt.waits, s.Gaps("option"))
			})
		})
	}
}

func TestBackoffFunc_getsTheContextOfTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		var got any
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{BackoffFunc: func(ctx context.Context, _ uint) time.Duration {
			got = ctx.Value(key{})
			return 0
		}}))
		cc := s.Dial(t, r.DialOptions()...)
		require.NoError(t, rpctest.Call(context.WithValue(t.Context(), key{}, "mine"), cc))
		assert.Equal(t, "mine", got)
	})
}

// A thousand clients that fail together come back spread out.
func TestBackoff_spreadsClients(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                  string
		jitter                retrybudget.Jitter
		low, high, mean, fuzz time.Duration
		largest               int // of the 10 ms buckets, in thousandths
	}{
		{"A6", retrybudget.JitterA6, 800 * time.Millisecond, 1200 * time.Millisecond, time.Second, 20 * time.Millisecond, 60},
		{"full", retrybudget.JitterFull, 0, time.Second, time.Second / 2, 50 * time.Millisecond, 40},
		{"none", retrybudget.JitterNone, time.Second, time.Second, time.Second, 0, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const clients = 1000
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
				cc := s.Dial(t)
				var wg sync.WaitGroup
				for i := range clients {
					r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
						Backoff: retrybudget.ExponentialBackoff{Initial: time.Second, Jitter: tt.jitter},
					}))
					wg.Go(func() {
						assert.NoError(t, callThrough(rpctest.WithCallID(t.Context(), fmt.Sprint(i)), r, cc))
					})
				}
				wg.Wait()
				var sum time.Duration
				buckets := map[time.Duration]int{}
				arrived := map[string]time.Time{}
				for _, e := range s.Entries("") {
					first, again := arrived[e.CallID]
					if !again {
						arrived[e.CallID] = e.At
						continue
					}
					gap := e.At.Sub(first)
					require.GreaterOrEqual(t, gap, tt.low)
					require.LessOrEqual(t, gap, tt.high)
					sum += gap
					buckets[gap/(10*time.Millisecond)]++
				}
				require.Equal(t, 2*clients, s.Attempts(""))
				assert.InDelta(t, tt.mean, sum/clients, float64(tt.fuzz))
				for at, n := range buckets {
					assert.LessOrEqual(t, n*1000/clients, tt.largest, "bucket %v", at*10*time.Millisecond)
				}
			})
		})
	}
}

// The library's defaults, frozen: at most three attempts, the waits uniform in
// 50 and in 100 ms.
func TestBackoff_defaultPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := s.Dial(t, newRetrier(t).DialOptions()...)
		var longest [2]time.Duration
		for i := range 300 {
			ctx, cancel := context.WithTimeout(rpctest.WithCallID(t.Context(), fmt.Sprint(i)), 10*time.Second)
			require.Error(t, rpctest.Call(ctx, cc))
			cancel()
			gaps := s.Gaps(fmt.Sprint(i))
			require.Len(t, gaps, 2, "three attempts")
			for n, limit := range millis(50, 100) {
				require.LessOrEqual(t, gaps[n], limit)
				longest[n] = max(longest[n], gaps[n])
			}
		}
		assert.Greater(t, longest[0], 45*time.Millisecond)
		assert.Greater(t, longest[1], 90*time.Millisecond)
	})
}
