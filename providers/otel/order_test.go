package otel_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	experimental "google.golang.org/grpc/experimental/opentelemetry"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

// layers are the dial options of an order of instrumentations, around those of
// the Retrier.
type layers func(tp *sdktrace.TracerProvider, retrier []grpc.DialOption) []grpc.DialOption

func otelgrpcHandler(tp *sdktrace.TracerProvider) grpc.DialOption {
	return grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(tp)))
}

func plugin(tp *sdktrace.TracerProvider) grpc.DialOption {
	return grpcotel.DialOption(grpcotel.Options{TraceOptions: experimental.TraceOptions{TracerProvider: tp, TextMapPropagator: propagation.TraceContext{}}})
}

// What spans there are, which are children of which, and what number an attempt
// has. Each call fails twice, and then succeeds.
func TestOrder(t *testing.T) {
	t.Parallel()
	const events = `  * retrybudget.retry attempt=2 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=1
  * retrybudget.retry attempt=3 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=1
`
	for _, tt := range []struct {
		name   string
		layers layers
		want   string
	}{
		{"otelgrpc, as recommended", func(tp *sdktrace.TracerProvider, retrier []grpc.DialOption) []grpc.DialOption {
			return slices.Concat(retryotel.CallSpans(tp), retrier,
				[]grpc.DialOption{otelgrpcHandler(tp), grpc.WithStatsHandler(retryotel.NewAttemptHandler())})
		}, "internal test.Service/Method\n" + events + `  client test.Service/Method previous-rpc-attempts=0
  client test.Service/Method previous-rpc-attempts=1
  client test.Service/Method previous-rpc-attempts=2
`},
		{"the plugin, as recommended", func(tp *sdktrace.TracerProvider, retrier []grpc.DialOption) []grpc.DialOption {
			return append([]grpc.DialOption{plugin(tp)}, retrier...)
		}, "client Sent.test.Service.Method\n" + events + `  internal Attempt.test.Service.Method previous-rpc-attempts=0
  internal Attempt.test.Service.Method previous-rpc-attempts=1
  internal Attempt.test.Service.Method previous-rpc-attempts=2
`},
		// What the documentation warns of: the plugin inside takes each attempt for a
		// call, and the call has no span for events.
		{"the plugin inside", func(tp *sdktrace.TracerProvider, retrier []grpc.DialOption) []grpc.DialOption {
			return append(slices.Clone(retrier), plugin(tp))
		}, `client Sent.test.Service.Method
  internal Attempt.test.Service.Method previous-rpc-attempts=0
client Sent.test.Service.Method
  internal Attempt.test.Service.Method previous-rpc-attempts=0
client Sent.test.Service.Method
  internal Attempt.test.Service.Method previous-rpc-attempts=0
`},
		// Inside, what should be the span of the call is one of each attempt.
		{"call spans inside", func(tp *sdktrace.TracerProvider, retrier []grpc.DialOption) []grpc.DialOption {
			return append(slices.Clone(retrier), retryotel.CallSpans(tp)...)
		}, "internal test.Service/Method\ninternal test.Service/Method\ninternal test.Service/Method\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, call := range []func(context.Context, *grpc.ClientConn){callUnary, callStream} {
				synctest.Test(t, func(t *testing.T) {
					s := rpctest.New()
					// A millisecond each, so that spans start one after the other.
					slow := rpctest.After(time.Millisecond, rpctest.Unavailable())
					s.Script(rpctest.Method, slow, slow, rpctest.OK())
					tp, spans := newTraces()
					r := newRetrier(t, every(time.Second, 3), retrybudget.WithObserver(retryotel.SpanEvents{}))
					call(t.Context(), s.Dial(t, tt.layers(tp, r.DialOptions())...))
					synctest.Wait()
					assert.Equal(t, tt.want, tree(spans.GetSpans()))
					assert.Equal(t, 3, s.Attempts(""))
				})
			}
		})
	}
}
