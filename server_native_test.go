package retrybudget_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// The callers here are plain grpc-go clients that retry UNAVAILABLE by a service
// config, up to three attempts. They have never heard of this library.

// callNatively makes one such call with the given time.
func callNatively(t *testing.T, s *service, call func(context.Context, *grpc.ClientConn, ...grpc.CallOption) error, d time.Duration) error {
	t.Helper()
	return call(after(t, d), s.dial(t, grpc.WithDefaultServiceConfig(nativePolicy)))
}

func TestNativeClient_setPushback(t *testing.T) {
	t.Parallel()
	for _, server := range servers {
		for _, kind := range handlerKinds {
			for _, d := range []time.Duration{0, 250 * ms, 20 * time.Second} {
				t.Run(server.name+"/"+kind.name+"/"+d.String(), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := serve(t, func(ctx context.Context) error {
							if retrybudget.AttemptFromIncomingContext(ctx) == 3 {
								return nil
							}
							assert.NoError(t, retrybudget.SetPushback(ctx, d))
							return unavailable("mine")
						}, server.opts()...)

						assert.NoError(t, callNatively(t, s, kind.call, time.Minute))

						assert.Equal(t, []time.Duration{d, d}, s.gaps(), "its own backoff is 10 ms")
					})
				})
			}
		}
	}
}

func TestNativeClient_stopRetries(t *testing.T) {
	t.Parallel()
	for _, server := range servers {
		for _, kind := range handlerKinds {
			for name, tt := range map[string]struct {
				stopAt   int // the attempt, 0 for none
				attempts int
			}{"never": {0, 3}, "at once": {1, 1}, "in the second attempt": {2, 2}} {
				t.Run(server.name+"/"+kind.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := serve(t, func(ctx context.Context) error {
							if retrybudget.AttemptFromIncomingContext(ctx) == tt.stopAt {
								assert.NoError(t, retrybudget.StopRetries(ctx))
							}
							return unavailable("mine")
						}, server.opts()...)

						err := callNatively(t, s, kind.call, time.Minute)

						assert.Equal(t, codes.Unavailable, status.Code(err))
						assert.Equal(t, tt.attempts, s.attempts())
					})
				})
			}
		}
	}
}

// A server that shed one retry of few does not yet stop the client; once retries
// are more than a tenth, it does.
func TestNativeClient_retryShedding(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		for name, tt := range map[string]struct {
			others   int // calls of others in the same second
			attempts int
		}{"few retries": {19, 3}, "a tenth": {8, 3}, "more": {7, 2}} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var full atomic.Bool
					s := serve(t, func(context.Context) error {
						if full.Load() {
							return unavailable("full") // the limiter behind
						}
						return nil
					}, guarded(retrybudget.WithRetryShedding(func(context.Context) bool { return full.Load() }))...)
					for range tt.others {
						assert.NoError(t, callNatively(t, s, kind.call, time.Minute))
					}
					full.Store(true)

					err := callNatively(t, s, kind.call, time.Minute)

					assert.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, tt.others+tt.attempts, s.attempts())
					assert.Equal(t, tt.others+1, s.runs(), "no retry reached the handler")
				})
			})
		}
	}
}

// A request that comes out of the queue when its caller has given up is not
// worked on.
func TestNativeClient_noTimeLeft(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		for name, tt := range map[string]struct {
			server []grpc.ServerOption
			runs   int
		}{"with the interceptors": {guarded(), 0}, "without": {nil, 1}} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := serve(t, func(context.Context) error { return nil }, append(queue(200*ms, 0), tt.server...)...)

					err := callNatively(t, s, kind.call, 100*ms)
					<-time.After(time.Second) // the queue is empty

					assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
					assert.Equal(t, 1, s.attempts())
					assert.Equal(t, tt.runs, s.runs())
				})
			})
		}
	}
}

// The same with a time limit of the server's own, where the caller is still
// there to see the answer: it is final, not worth a retry.
func TestNativeClient_noTimeLeftInTheServer(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(context.Context) error { return nil }, append(queue(200*ms, 100*ms), guarded()...)...)

				err := callNatively(t, s, kind.call, time.Minute)

				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.Equal(t, "retrybudget: no time left when the request arrived", status.Convert(err).Message())
				assert.Equal(t, 1, s.attempts())
				assert.Zero(t, s.runs())
			})
		})
	}
}

// The hint means nothing to such a client; the veto in its place does.
func TestNativeClient_hint(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		for name, tt := range map[string]struct {
			server   []retrybudget.ServerOption
			attempts int
		}{"hint": {nil, 3}, "pushback": {[]retrybudget.ServerOption{retrybudget.WithPushbackHint()}, 1}} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					s := serve(t, func(ctx context.Context) error { return rpctest.Call(ctx, down) }, guarded(tt.server...)...)

					err := callNatively(t, s, kind.call, time.Minute)

					assert.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, tt.attempts, s.attempts())
				})
			})
		}
	}
}
