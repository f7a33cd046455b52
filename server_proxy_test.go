package retrybudget_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// proxy starts a server that passes calls of any method on through r.
func proxy(t *testing.T, r *retrybudget.Retrier, to *rpctest.Listener, opts ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	down := to.Dial(t, r.DialOptions()...)
	front := rpctest.New()
	forward := func(stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		text, err := recv(stream)
		if err != nil {
			return err
		}
		if err := rpctest.CallMethod(stream.Context(), down, method); err != nil {
			return err
		}
		return send(stream, text)
	}
	return front.Start(t, append(opts, grpc.ChainStreamInterceptor(
		func(_ any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			return forward(stream)
		}))...).Dial(t)
}

// A proxy passes on names that its callers choose. A name whose budget is spent
// does not get a new one by being pushed out, and each refusal is hinted to the
// caller it belongs to.
func TestServerProxy_namesThatOthersChoose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, others = 16, 500
		d := rpctest.New()
		d.Script("/a.A/drained", rpctest.Unavailable())
		r := keysRetrier(t, limit, retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10})
		cc := proxy(t, r, d.Start(t), guarded()...)
		call := func(method string) (hint []string, err error) {
			var trailer metadata.MD
			err = rpctest.CallMethod(t.Context(), cc, method, grpc.Trailer(&trailer))
			return trailer.Get(exhaustedTrailer), err
		}
		for i := range 20 {
			hint, err := call("/a.A/drained")
			require.Equal(t, codes.Unavailable, status.Code(err))
			if i < 10 {
				assert.Empty(t, hint, "its two attempts were used up")
				continue
			}
			assert.Equal(t, []string{"1"}, hint, "refused")
		}
		require.Equal(t, 30, d.AttemptsOf("/a.A/drained"))
		for i := range others {
			method := fmt.Sprintf("/x.X/%d", i)
			d.Script(method, rpctest.Fail(codes.Unimplemented, ""))
			hint, err := call(method)
			require.Equal(t, codes.Unimplemented, status.Code(err))
			require.Empty(t, hint)
		}
		assert.LessOrEqual(t, len(budgetsOf(r)), limit+1)
		hint, err := call("/a.A/drained")
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, []string{"1"}, hint)
		assert.Equal(t, 31, d.AttemptsOf("/a.A/drained"), "still spent")
	})
}

// Not parallel: other tests' memory would be counted too. The interceptors keep
// nothing of the names, with shedding and without.
func TestServerProxy_memoryStaysFlat(t *testing.T) {
	const limit, names = 64, 30_000
	for _, code := range []codes.Code{codes.Unimplemented, codes.Unavailable} {
		r := keysRetrier(t, limit, retrybudget.TokenBucketConfig{Capacity: 5, Initial: 1})
		enter := retrybudget.StreamServerInterceptor(retrybudget.WithRetryShedding(func(context.Context) bool { return false }))
		hints := 0
		call := func(from, to int) {
			for i := from; i < to; i++ {
				method := fmt.Sprintf("/x.X/%d", i)
				stream := &trailerStream{ctx: arriving(t.Context(), attemptHeader, fmt.Sprint(i%3), "name", method)}
				_ = enter(nil, stream, &grpc.StreamServerInfo{FullMethod: method}, func(_ any, stream grpc.ServerStream) error {
					callName(stream.Context(), r, method, code)
					return status.Error(code, "")
				})
				hints += len(stream.trailer.Get(exhaustedTrailer))
			}
		}
		call(0, names/10)
		before := heap()
		call(names/10, names)
		grown := heap() - before
		assert.Less(t, grown, int64(64<<10), "%v: bytes for %d more names", code, names)
		assert.LessOrEqual(t, len(budgetsOf(r)), limit+1)
		if code == codes.Unavailable {
			assert.Equal(t, names-limit-1, hints, "all but those that got a retry, of their own or of the common budget")
		} else {
			assert.Zero(t, hints)
		}
		runtime.KeepAlive(r)
		runtime.KeepAlive(enter)
	}
}

// trailerStream is a server stream that keeps its trailer.
type trailerStream struct {
	grpc.ServerStream
	ctx     context.Context
	trailer metadata.MD
}

func (s *trailerStream) Context() context.Context { return s.ctx }

func (s *trailerStream) SetTrailer(md metadata.MD) { s.trailer = metadata.Join(s.trailer, md) }

// A server that sends response headers before it fails switches native retries
// off, but not this library's, and the interceptors change neither.
func TestServer_headersBeforeTheFailure(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		for _, native := range []bool{false, true} {
			t.Run(fmt.Sprint(kind.name, "/native ", native), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					s := serve(t, func(ctx context.Context) error {
						id := fmt.Sprint(retrybudget.AttemptFromIncomingContext(ctx))
						require.NoError(t, grpc.SendHeader(ctx, metadata.Pairs("x-id", id)))
						require.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs("x-end", id)))
						if id == "1" {
							return rpctest.Call(ctx, down)
						}
						return nil
					}, guarded()...)
					opts := newRetrier(t).DialOptions()
					if native {
						opts = []grpc.DialOption{grpc.WithDefaultServiceConfig(nativePolicy)}
					}
					var header, trailer metadata.MD

					err := kind.call(t.Context(), s.dial(t, opts...), grpc.Header(&header), grpc.Trailer(&trailer))

					if native {
						assert.Equal(t, codes.Unavailable, status.Code(err))
						assert.Equal(t, 1, s.attempts())
						assert.Equal(t, metadata.Pairs("x-end", "1", exhaustedTrailer, "1"), said(trailer))
						return
					}
					require.NoError(t, err)
					assert.Equal(t, 2, s.attempts())
					assert.Equal(t, []string{"2"}, header.Get("x-id"))
					assert.Equal(t, metadata.Pairs("x-end", "2"), said(trailer), "nothing of attempt 1")
				})
			})
		}
	}
}

// An interceptor of the client that calls another method with the context of an
// attempt: the server sees a call that counts for itself.
func TestServer_nestedCallOfTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var outer, nested []int
		s := serve(t, func(ctx context.Context) error {
			n := retrybudget.AttemptFromIncomingContext(ctx)
			if method, _ := grpc.Method(ctx); method == streamMethod {
				nested = append(nested, n)
				return nil
			}
			if outer = append(outer, n); n == 1 {
				return unavailable("mine")
			}
			return nil
		}, guarded()...)
		cc := s.dial(t, with(newRetrier(t), func(a attemptSeen) error {
			if err := callStream(a.ctx, a.cc); err != nil {
				return err
			}
			return a.send(a.ctx)
		})...)

		require.NoError(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, []int{1, 2}, outer)
		assert.Equal(t, []int{1, 1}, nested)
	})
}

// Two layers of retries at the client, and the interceptors twice at the server:
// attempts are counted as they come, each retry of this library's is charged once,
// four-fold where it was hinted.
func TestServer_twoLayersOfRetries(t *testing.T) {
	t.Parallel()
	native := grpc.WithDefaultServiceConfig(nativePolicy)
	for _, tt := range []struct {
		name string
		dial func(r *retrybudget.Retrier) []grpc.DialOption
		seen []int
	}{
		{"the same Retrier twice", func(r *retrybudget.Retrier) []grpc.DialOption {
			return append(r.DialOptions(), r.DialOptions()...)
		}, []int{1, 2, 3}},
		{"DialOptions over a native policy", func(r *retrybudget.Retrier) []grpc.DialOption {
			return append(r.DialOptions(), native)
		}, []int{1, 2, 3}},
		{"plain interceptors over a native policy", func(r *retrybudget.Retrier) []grpc.DialOption {
			return []grpc.DialOption{
				grpc.WithUnaryInterceptor(r.UnaryClientInterceptor()), grpc.WithStreamInterceptor(r.StreamClientInterceptor()), native,
			}
		}, []int{1, 2, 3, 2, 2, 3, 3, 3, 3}}, // the larger of both counts
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					var seen []int
					s := serve(t, func(ctx context.Context) error {
						seen = append(seen, retrybudget.AttemptFromIncomingContext(ctx))
						return rpctest.Call(ctx, down)
					}, append(guarded(), guarded()...)...)
					bucket, option := bucketed(t, retrybudget.TokenBucketConfig{Initial: 20})
					journal := &callJournal{}
					cc := s.dial(t, tt.dial(newRetrier(t, option, retrybudget.WithObserver(journal)))...)

					require.Error(t, kind.call(t.Context(), cc))

					assert.Equal(t, tt.seen, seen)
					assert.Equal(t, int64(20-2*4), tokensIn(bucket)/1000)
					assert.Len(t, journal.retries, 2)
				})
			})
		}
	}
}
