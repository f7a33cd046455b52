package retrybudget_test

import (
	"context"
	"errors"
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

// downstream returns a connection to a server with a script, through a Retrier
// that grants no retry unless opts say otherwise.
func downstream(t *testing.T, steps []rpctest.Step, opts ...retrybudget.Option) *grpc.ClientConn {
	t.Helper()
	s := rpctest.New()
	s.Script(rpctest.Method, steps...)
	nothing := &budgetLedger{}
	return s.Dial(t, newRetrier(t, append([]retrybudget.Option{nothing.option()}, opts...)...).DialOptions()...)
}

// refusing returns a connection on which every call fails with UNAVAILABLE
// because the budget refuses a retry.
func refusing(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return downstream(t, []rpctest.Step{rpctest.Unavailable()})
}

// withHint makes a step's answer carry the hint.
func withHint(next rpctest.Step) rpctest.Step {
	return rpctest.WithTrailer(next, exhaustedTrailer, "1")
}

// trailerOf serves one call with the handler and returns its trailer.
func trailerOf(t *testing.T, call func(context.Context, *grpc.ClientConn, ...grpc.CallOption) error, handler func(context.Context) error, opts ...retrybudget.ServerOption) (metadata.MD, error) {
	t.Helper()
	var trailer metadata.MD
	err := call(t.Context(), serve(t, handler, guarded(opts...)...).dial(t), grpc.Trailer(&trailer))
	return said(trailer), err
}

// said returns what a trailer says. In an answer without headers and messages
// grpc-go adds the content type.
func said(trailer metadata.MD) metadata.MD {
	md := trailer.Copy()
	md.Delete("content-type")
	return md
}

// What the handler makes of a refusal: the hint goes with answers that invite a
// retry, and with no other.
func TestServerHint_answers(t *testing.T) {
	t.Parallel()
	hintCodes := map[codes.Code]bool{codes.Unavailable: true, codes.ResourceExhausted: true, codes.DeadlineExceeded: true, codes.Aborted: true}
	type answer struct {
		name string
		make func(refused error) error
		code codes.Code
		hint bool
	}
	answers := []answer{
		{"passed on", func(err error) error { return err }, codes.Unavailable, true},
		{"wrapped", func(err error) error { return fmt.Errorf("stock: %w", err) }, codes.Unavailable, true},
		{"swallowed", func(error) error { return nil }, codes.OK, false},
		{"plain error", func(error) error { return errors.New("plain") }, codes.Unknown, false},
		{"bare context error", func(error) error { return context.DeadlineExceeded }, codes.DeadlineExceeded, true},
		{"wrapped context error", func(error) error { return fmt.Errorf("stock: %w", context.DeadlineExceeded) }, codes.DeadlineExceeded, true},
		{"bare cancel", func(error) error { return context.Canceled }, codes.Canceled, false},
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		answers = append(answers, answer{"rewritten to " + code.String(), func(error) error { return status.Error(code, "mine") }, code, hintCodes[code]})
	}
	for _, tt := range answers {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					trailer, err := trailerOf(t, kind.call, func(ctx context.Context) error {
						refused := rpctest.Call(ctx, down)
						require.ErrorIs(t, refused, retrybudget.ErrBudgetExhausted)
						return tt.make(refused)
					})
					assert.Equal(t, tt.code, status.Code(err))
					if tt.hint {
						assert.Equal(t, metadata.Pairs(exhaustedTrailer, "1"), trailer)
						return
					}
					assert.Empty(t, trailer)
				})
			})
		}
	}
}

// What happens to the handler's own calls: the hint is for a budget that refused,
// and for a hint that ended a call, whatever else was said of that call.
func TestServerHint_causes(t *testing.T) {
	t.Parallel()
	granting := &budgetLedger{grants: -1}
	grants := granting.option()
	fails := []rpctest.Step{rpctest.Unavailable()}
	hint := func(code codes.Code) []rpctest.Step {
		return []rpctest.Step{withHint(rpctest.Fail(code, "")), rpctest.OK()}
	}
	for _, tt := range []struct {
		name  string
		steps []rpctest.Step
		opts  []retrybudget.Option
		call  []grpc.CallOption
		want  bool
	}{
		{"refused", fails, nil, nil, true},
		{"refused the second retry", fails, []retrybudget.Option{(&budgetLedger{grants: 1}).option()}, nil, true},
		{"attempts used up", fails, []retrybudget.Option{grants}, nil, false},
		{"answered", []rpctest.Step{rpctest.Fail(codes.NotFound, "")}, nil, nil, false},
		{"succeeded", []rpctest.Step{rpctest.OK()}, nil, nil, false},
		{"only observed", fails, []retrybudget.Option{retrybudget.WithMode(retrybudget.Observe)}, nil, false},
		{"retries off", fails, []retrybudget.Option{retrybudget.WithMode(retrybudget.Off)}, nil, false},

		{"hinted, refused", hint(codes.Unavailable), nil, nil, true},
		{"hinted, retried with success", hint(codes.Unavailable), []retrybudget.Option{grants}, nil, false},
		{"hinted, retried and failed without one", []rpctest.Step{withHint(rpctest.Unavailable()), rpctest.Unavailable()}, []retrybudget.Option{grants}, nil, false},
		{"hinted, attempts used up", []rpctest.Step{rpctest.Unavailable(), rpctest.Unavailable(), withHint(rpctest.Unavailable())}, []retrybudget.Option{grants}, nil, true},
		{"hinted, code not retryable", hint(codes.Internal), nil, nil, true},
		{"hinted, RESOURCE_EXHAUSTED without guidance", hint(codes.ResourceExhausted), nil, nil, true},
		{"hinted, not idempotent", hint(codes.Unavailable), nil, []grpc.CallOption{retrybudget.CallIdempotency(retrybudget.NonIdempotent)}, true},
		{"hinted, one attempt", hint(codes.Unavailable), nil, []grpc.CallOption{retrybudget.CallMaxAttempts(1)}, true},
		{"hinted, disabled", hint(codes.Unavailable), nil, []grpc.CallOption{retrybudget.CallDisabled()}, true},
		{"hinted, retries off", hint(codes.Unavailable), []retrybudget.Option{retrybudget.WithMode(retrybudget.Off)}, nil, true},
		{"hinted, but OK", []rpctest.Step{withHint(rpctest.OK())}, nil, nil, false},

		{"vetoed", []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "-1")}, []retrybudget.Option{grants}, nil, true},
		{"delay too long", []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "30001")}, []retrybudget.Option{grants}, nil, false},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := downstream(t, tt.steps, tt.opts...)
					trailer, err := trailerOf(t, kind.call, func(ctx context.Context) error {
						_ = rpctest.Call(ctx, down, tt.call...)
						return unavailable("mine")
					})
					assert.Equal(t, "mine", status.Convert(err).Message())
					assert.Equal(t, tt.want, len(trailer.Get(exhaustedTrailer)) == 1, "%v", trailer)
				})
			})
		}
	}
}

// A stream further down counts as a unary call does, retried or not.
func TestServerHint_downstreamStreams(t *testing.T) {
	t.Parallel()
	hint := func(ss grpc.ServerStream) { ss.SetTrailer(metadata.Pairs(exhaustedTrailer, "1")) }
	for _, tt := range []struct {
		name    string
		handler func(grpc.ServerStream) error
		want    bool
	}{
		{"refused", func(grpc.ServerStream) error { return unavailable("") }, true},
		{"hinted and refused", func(ss grpc.ServerStream) error { hint(ss); return unavailable("") }, true},
		{"hinted after a message", func(ss grpc.ServerStream) error { hint(ss); _ = send(ss, "m1"); return unavailable("") }, true},
		{"failed after a message", func(ss grpc.ServerStream) error { _ = send(ss, "m1"); return unavailable("") }, false},
		{"succeeded", func(ss grpc.ServerStream) error { return send(ss, "m1") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				down := streamServer(t, tt.handler).Dial(t, newRetrier(t, (&budgetLedger{}).option()).DialOptions()...)
				trailer, err := trailerOf(t, rpctest.Call, func(ctx context.Context) error {
					_ = callStream(ctx, down)
					return unavailable("mine")
				})
				assert.Equal(t, "mine", status.Convert(err).Message())
				assert.Equal(t, tt.want, len(trailer.Get(exhaustedTrailer)) == 1, "%v", trailer)
			})
		})
	}
}

func TestServerHint_withHintCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]bool{codes.NotFound: true, codes.Internal: true, codes.Unavailable: false, codes.Aborted: false} {
		for _, kind := range handlerKinds {
			t.Run(kind.name+"/"+code.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					trailer, err := trailerOf(t, kind.call, func(ctx context.Context) error {
						_ = rpctest.Call(ctx, down)
						return status.Error(code, "mine")
					}, retrybudget.WithHintCodes(codes.NotFound, codes.Internal))
					require.Error(t, err)
					assert.Equal(t, want, len(trailer.Get(exhaustedTrailer)) == 1)
				})
			})
		}
	}
}

// The veto goes out in place of the hint, under the same conditions, as the only
// pushback value.
func TestServerHint_withPushbackHint(t *testing.T) {
	t.Parallel()
	refused := func(ctx context.Context, down *grpc.ClientConn) error { return rpctest.Call(ctx, down) }
	veto := metadata.Pairs(pushbackTrailer, "-1")
	for _, tt := range []struct {
		name    string
		handler func(ctx context.Context, down *grpc.ClientConn) error
		want    metadata.MD
	}{
		{"refused", refused, veto},
		{"refused, and a delay of its own", func(ctx context.Context, down *grpc.ClientConn) error {
			_ = retrybudget.SetPushback(ctx, time.Second)
			return rpctest.Call(ctx, down)
		}, veto},
		{"refused, and a veto of its own", func(ctx context.Context, down *grpc.ClientConn) error {
			_ = retrybudget.StopRetries(ctx)
			return rpctest.Call(ctx, down)
		}, veto},
		{"swallowed", func(ctx context.Context, down *grpc.ClientConn) error { _ = rpctest.Call(ctx, down); return nil }, nil},
		{"rewritten to INTERNAL", func(ctx context.Context, down *grpc.ClientConn) error {
			_ = rpctest.Call(ctx, down)
			return status.Error(codes.Internal, "mine")
		}, nil},
		{"failed without a refusal", func(context.Context, *grpc.ClientConn) error { return unavailable("mine") }, nil},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					trailer, _ := trailerOf(t, kind.call, func(ctx context.Context) error { return tt.handler(ctx, down) }, retrybudget.WithPushbackHint())
					if tt.want == nil {
						assert.Empty(t, trailer)
						return
					}
					assert.Equal(t, tt.want, trailer)
				})
			})
		}
	}
}

// Handlers are also called without a transport: by their tests, by gateways in
// the same process.
func TestServerHint_withoutATransport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := refusing(t)
		_, err := retrybudget.UnaryServerInterceptor()(t.Context(), nil, nil, func(ctx context.Context, _ any) (any, error) {
			return nil, rpctest.Call(ctx, down)
		})
		assert.ErrorIs(t, err, retrybudget.ErrBudgetExhausted, "the very error")
	})
}
