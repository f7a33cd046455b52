package retrybudget_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// The trailers of a server's guidance.
const (
	pushbackTrailer  = "grpc-retry-pushback-ms"
	exhaustedTrailer = "retrybudget-exhausted"
)

func TestServer_invalidOptionsPanic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts []retrybudget.ServerOption
		want []string
	}{
		{"nil option", []retrybudget.ServerOption{retrybudget.WithPushbackHint(), nil}, []string{"option 1", "nil"}},
		{"no hint codes", []retrybudget.ServerOption{retrybudget.WithHintCodes()}, []string{"WithHintCodes", "empty"}},
		{"hint code OK", []retrybudget.ServerOption{retrybudget.WithHintCodes(codes.Unavailable, codes.OK)}, []string{"WithHintCodes", "OK"}},
		{"hint code 17", []retrybudget.ServerOption{retrybudget.WithHintCodes(17)}, []string{"WithHintCodes", "17"}},
		{"header without a name", []retrybudget.ServerOption{retrybudget.WithIncomingAttemptHeader("")}, []string{"WithIncomingAttemptHeader", `""`}},
		{"header with a space", []retrybudget.ServerOption{retrybudget.WithIncomingAttemptHeader("a b")}, []string{"WithIncomingAttemptHeader", `"a b"`}},
		{"binary header", []retrybudget.ServerOption{retrybudget.WithIncomingAttemptHeader("attempt-bin")}, []string{"WithIncomingAttemptHeader", `"attempt-bin"`}},
		{"header of gRPC's own", []retrybudget.ServerOption{retrybudget.WithIncomingAttemptHeader("grpc-timeout")}, []string{"WithIncomingAttemptHeader", `"grpc-timeout"`}},
		{"no limiter", []retrybudget.ServerOption{retrybudget.WithRetryShedding(nil)}, []string{"WithRetryShedding", "nil"}},
		{"two of them", []retrybudget.ServerOption{retrybudget.WithHintCodes(17), retrybudget.WithRetryShedding(nil)}, []string{"WithHintCodes", "WithRetryShedding"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for kind, construct := range map[string]func(){
				"unary":  func() { retrybudget.UnaryServerInterceptor(tt.opts...) },
				"stream": func() { retrybudget.StreamServerInterceptor(tt.opts...) },
			} {
				text := fmt.Sprint(panicOf(construct))
				assert.Contains(t, text, "retrybudget: ", kind)
				for _, want := range tt.want {
					assert.Contains(t, text, want, kind)
				}
			}
		})
	}
}

// panicOf returns what f panics with, nil if it does not.
func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

func TestServer_validOptionsDoNotPanic(t *testing.T) {
	t.Parallel()
	opts := []retrybudget.ServerOption{
		retrybudget.WithHintCodes(codes.Unavailable), retrybudget.WithPushbackHint(),
		retrybudget.WithIncomingAttemptHeader("X-Attempt"), retrybudget.WithIncomingAttemptHeader("Grpc-Previous-Rpc-Attempts"),
		retrybudget.WithRetryShedding(func(context.Context) bool { return false }),
	}
	assert.NotPanics(t, func() { retrybudget.UnaryServerInterceptor(opts...) })
	assert.NotPanics(t, func() { retrybudget.StreamServerInterceptor(opts...) })
}

// A handler that does nothing special is served as without the interceptors.
func TestServer_changesNothingOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		for _, want := range []error{nil, status.Error(codes.Unavailable, "mine"), status.Error(codes.NotFound, "mine"), fmt.Errorf("plain")} {
			t.Run(fmt.Sprint(kind.name, " ", want), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					handler := func(context.Context) error { return want }
					var bare, trailer metadata.MD
					without := kind.call(t.Context(), serve(t, handler).dial(t), grpc.Trailer(&bare))

					err := kind.call(t.Context(), serve(t, handler, guarded()...).dial(t), grpc.Trailer(&trailer))

					assert.Equal(t, without, err)
					assert.Equal(t, bare, trailer)
					assert.Empty(t, said(trailer))
				})
			})
		}
	}
}

// A server that has them from two places, say a framework's and its own, sends
// one hint and one pushback value.
func TestServer_installedTwice(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				down := refusing(t)
				var attempts []int
				s := serve(t, func(ctx context.Context) error {
					attempts = append(attempts, retrybudget.AttemptFromIncomingContext(ctx))
					require.NoError(t, retrybudget.SetPushback(ctx, 20*ms))
					return rpctest.Call(ctx, down)
				}, append(guarded(), guarded()...)...)
				var trailer metadata.MD
				cc := s.dial(t, newRetrier(t).DialOptions()...)

				require.Error(t, kind.call(t.Context(), cc, grpc.Trailer(&trailer)))

				assert.Equal(t, []string{"1"}, trailer.Get(exhaustedTrailer))
				assert.Equal(t, []string{"20"}, trailer.Get(pushbackTrailer))
				assert.Equal(t, []time.Duration{20 * ms, 20 * ms}, s.gaps())
				assert.Equal(t, []int{1, 2, 3}, attempts)
			})
		})
	}
}

// Of two that differ the outer one counts, which sees all that happens inside.
func TestServer_installedTwiceWithOtherOptions(t *testing.T) {
	t.Parallel()
	shedding := retrybudget.WithRetryShedding(func(context.Context) bool { return true })
	for _, tt := range []struct {
		name         string
		outer, inner []retrybudget.ServerOption
		want         metadata.MD
	}{
		{"pushback outside", []retrybudget.ServerOption{retrybudget.WithPushbackHint()}, nil, metadata.Pairs(pushbackTrailer, "-1")},
		{"pushback inside", nil, []retrybudget.ServerOption{retrybudget.WithPushbackHint()}, metadata.Pairs(exhaustedTrailer, "1")},
		{"shedding inside", nil, []retrybudget.ServerOption{shedding}, metadata.Pairs(exhaustedTrailer, "1")},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					s := serve(t, func(ctx context.Context) error { return rpctest.Call(ctx, down) }, append(guarded(tt.outer...), guarded(tt.inner...)...)...)
					var trailer metadata.MD

					err := kind.call(metadata.AppendToOutgoingContext(t.Context(), attemptHeader, "1"), s.dial(t), grpc.Trailer(&trailer))

					require.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, 1, s.runs())
					assert.Equal(t, tt.want, said(trailer))
				})
			})
		}
	}
}

// recovery turns a panic into an answer, as interceptors for that do.
func recovery(code codes.Code) []grpc.ServerOption {
	recovered := func(err *error) {
		if p := recover(); p != nil {
			*err = status.Error(code, fmt.Sprint(p))
		}
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
			defer recovered(&err)
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer recovered(&err)
			return handler(srv, stream)
		}),
	}
}

// A panic goes through to whoever recovers from it. What becomes an answer inside
// the interceptor is answered like any other; outside it, the interceptor is gone.
func TestServer_panickingHandler(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		opts  []grpc.ServerOption
		hint  []string
		panic codes.Code
	}{
		{"recovered inside", append(guarded(), recovery(codes.Unavailable)...), []string{"1"}, codes.Unavailable},
		{"recovered inside to INTERNAL", append(guarded(), recovery(codes.Internal)...), nil, codes.Internal},
		{"recovered outside", append(recovery(codes.Unavailable), guarded()...), nil, codes.Unavailable},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					calls := 0
					s := serve(t, func(ctx context.Context) error {
						if calls++; calls == 1 {
							_ = rpctest.Call(ctx, down)
							panic("ouch")
						}
						return nil
					}, tt.opts...)
					cc := s.dial(t)
					var trailer metadata.MD

					err := kind.call(t.Context(), cc, grpc.Trailer(&trailer))

					assert.Equal(t, tt.panic, status.Code(err))
					assert.Equal(t, "ouch", status.Convert(err).Message())
					assert.Equal(t, tt.hint, trailer.Get(exhaustedTrailer))
					assert.NoError(t, kind.call(t.Context(), cc), "the next call is served")
				})
			})
		}
	}
}
