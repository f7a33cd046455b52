package otel

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"

	"github.com/retrybudget/retrybudget"
)

// NewAttemptHandler returns a handler for grpc.WithStatsHandler that puts the
// number of attempts before it, 0 for the first, on the span of each attempt, as
// previous-rpc-attempts (gRFC A72). Give it after the handler that makes these
// spans, otelgrpc's, or it finds the span of the call. grpc-go's plugin numbers
// its spans itself.
func NewAttemptHandler() stats.Handler { return attemptHandler{} }

type attemptHandler struct{}

func (attemptHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(previousKey.Int(retrybudget.AttemptFromContext(ctx) - 1))
	}
	return ctx
}

func (attemptHandler) HandleRPC(context.Context, stats.RPCStats) {}

func (attemptHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (attemptHandler) HandleConn(context.Context, stats.ConnStats) {}
