package otel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

func TestSpanEvents_onTheSpanOfTheCaller(t *testing.T) {
	t.Parallel()
	unavailable := rpctest.Fail(codes.Unavailable, "secret text")
	empty := retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{}))
	for _, tt := range []struct {
		name    string
		steps   []rpctest.Step
		options []retrybudget.Option
		want    []string
	}{
		{"OK", []rpctest.Step{rpctest.OK()}, nil, nil},
		{"not retryable", []rpctest.Step{rpctest.Fail(codes.NotFound, "secret text")}, nil, nil},
		{"all attempts fail", []rpctest.Step{unavailable, rpctest.Pushback(unavailable, "250"), unavailable}, nil, []string{
			"retrybudget.retry attempt=2 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=1",
			"retrybudget.retry attempt=3 from_guidance=true rpc.response.status_code=UNAVAILABLE wait=0.25",
			"retrybudget.refused attempt=3 reason=max_attempts rpc.response.status_code=UNAVAILABLE",
		}},
		{"budget", []rpctest.Step{unavailable}, []retrybudget.Option{empty}, []string{
			"retrybudget.refused attempt=1 reason=budget rpc.response.status_code=UNAVAILABLE",
		}},
		{"budget only observed", []rpctest.Step{unavailable, rpctest.OK()}, []retrybudget.Option{empty, retrybudget.WithMode(retrybudget.Observe)}, []string{
			"retrybudget.refused attempt=1 observed=true reason=budget rpc.response.status_code=UNAVAILABLE",
			"retrybudget.retry attempt=2 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=1",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, call := range []func(context.Context, *grpc.ClientConn){callUnary, callStream} {
				synctest.Test(t, func(t *testing.T) {
					s := rpctest.New()
					s.Script(rpctest.Method, tt.steps...)
					tp, spans := newTraces()
					cc := s.Dial(t, newRetrier(t, append([]retrybudget.Option{every(time.Second, 3), retrybudget.WithObserver(retryotel.SpanEvents{})}, tt.options...)...).DialOptions()...)
					ctx, span := tp.Tracer("test").Start(t.Context(), "work")
					call(ctx, cc)
					span.End()

					require.Len(t, spans.GetSpans(), 1)
					var events []string
					for _, e := range spans.GetSpans()[0].Events {
						events = append(events, e.Name+" "+text(e.Attributes))
					}
					assert.Equal(t, tt.want, events)
				})
			}
		})
	}
}

func callUnary(ctx context.Context, cc *grpc.ClientConn) { _ = rpctest.Call(ctx, cc) }

func callStream(ctx context.Context, cc *grpc.ClientConn) {
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, rpctest.Method)
	if err != nil {
		return
	}
	_ = stream.SendMsg(wrapperspb.String("secret text"))
	_ = stream.CloseSend()
	for err == nil {
		err = receive(stream)
	}
}
