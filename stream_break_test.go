package retrybudget_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// The limit of all streams together holds at every moment.
func TestStreamBreak_totalIsNeverExceeded(t *testing.T) {
	t.Parallel()
	const total = 3000
	r := newRetrier(t, atOnce(1), retrybudget.WithReplayLimits(1<<20, total))
	streamer := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		return &fake{ctx: ctx, answer: func([]any) error { return unavailable("x") }}, nil
	}
	m := wrapperspb.String(strings.Repeat("x", 1000))
	var most int64
	var busy atomic.Int64
	busy.Store(4)
	parallel(5, func(g int) {
		if g == 0 {
			for busy.Load() > 0 {
				most = max(most, r.ReplayBytes())
			}
			return
		}
		defer busy.Add(-1)
		for range 1000 {
			cs, err := r.StreamClientInterceptor()(t.Context(), clientStream, nil, streamMethod, streamer, retrybudget.CallMaxAttempts(2))
			if !assert.NoError(t, err) {
				return
			}
			for range 3 {
				_ = cs.SendMsg(m)
			}
			_, _ = recvOne(cs)
		}
	})
	assert.Zero(t, r.ReplayBytes())
	assert.LessOrEqual(t, most, int64(total))
	assert.Positive(t, most)
}

// A function of the application's that panics does so in the call. The stream is
// over then, and holds nothing.
func TestStreamBreak_panicWhileDeciding(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]option{
		"classifier": retrybudget.WithClassifier(func(retrybudget.CallInfo, error) retrybudget.Verdict { panic("broken") }),
		"backoff":    retrybudget.WithPolicy(policy{BackoffFunc: func(context.Context, uint) time.Duration { panic("broken") }}),
		"observer":   retrybudget.WithObserver(callingObserver{func() { panic("broken") }}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, reading(1, failing(unavailable("x"))))
				r := newRetrier(t, opt)
				finished := 0
				ctx, cancel := context.WithCancel(t.Context())
				cs := open(ctx, t, s.Dial(t, r.DialOptions()...), bidiStream, grpc.OnFinish(func(error) { finished++ }))
				sendAll(t, cs, "a")
				require.Equal(t, "broken", panicOf(func() { _, _ = recvOne(cs) }))
				cancel()
				synctest.Wait()
				assert.Zero(t, r.ReplayBytes())
				assert.Equal(t, 1, finished)
			})
		})
	}
}

// A stream that began while retries were off kept nothing to send again. Switched
// on meanwhile, they must not make an attempt without its messages.
func TestStreamBreak_streamThatBeganOff(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]policy{
		"plain":        {},
		"with timeout": {PerAttemptTimeout: time.Minute, Idempotency: retrybudget.Idempotent},
	} {
		for kind, desc := range streamKinds {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, later(time.Second, failing(unavailable("x"))), collecting)
					r := newRetrier(t, retrybudget.WithMode(retrybudget.Off), retrybudget.WithPolicy(p))
					cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), desc)
					sendAll(t, cs, "a")
					require.NoError(t, r.SetMode(retrybudget.Enforce))

					_, err := recvOne(cs)

					assert.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, 1, s.AttemptsOf(streamMethod))
				})
			})
		}
	}
}

// OnFinish may use the stream that has ended, and the Retrier.
func TestStreamBreak_onFinishUsesTheStream(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(grpc.ServerStream) error{"OK": sending(nil, "m"), "failed": failing(unavailable("x"))} {
		for kind, desc := range streamKinds {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRetrier(t, atOnce(2))
					var cs grpc.ClientStream
					var finished sync.WaitGroup
					finished.Add(1)
					cs = open(t.Context(), t, streamServer(t, handler).Dial(t, r.DialOptions()...), desc, grpc.OnFinish(func(error) {
						defer finished.Done()
						_, _ = recvOne(cs)
						assert.Equal(t, desc.ClientStreams, cs.SendMsg(wrapperspb.String("late")) == io.EOF)
						assert.NoError(t, cs.CloseSend())
						_, _ = cs.Header()
						cs.Trailer()
						assert.NotNil(t, cs.Context())
						assert.NoError(t, r.SetMode(retrybudget.Off))
					}))
					sendAll(t, cs, "a")
					_, _ = recvAll(cs)
					finished.Wait()
				})
			})
		}
	}
}
