package otel

import (
	"context"
	"slices"
	"sync"

	otelcodes "go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CallSpans returns dial options that make one span for each call, waits between
// its attempts included. Give them before those of the Retrier, so that the spans
// of attempts are its children. Do not use them with grpc-go's plugin, which makes
// such a span itself.
//
// The span has the method's name and the kind INTERNAL, because those of the
// attempts are the CLIENT spans, which the server's are children of; the
// attributes of the semantic conventions for RPC; and the status Error, without a
// text, when the call failed or panicked.
// That of a stream ends when the stream does, also when the application gives it
// up by cancelling its context.
//
// It panics when tp is nil.
func CallSpans(tp trace.TracerProvider) []grpc.DialOption {
	if tp == nil {
		panic("retrybudget: CallSpans: nil TracerProvider")
	}
	s := callSpans{tracer: tp.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(s.unary), grpc.WithChainStreamInterceptor(s.stream)}
}

type callSpans struct{ tracer trace.Tracer }

func (s callSpans) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, span := s.start(ctx, cc, method)
	panicked := true
	defer func() {
		if panicked { // further in
			span.SetStatus(otelcodes.Error, "")
		}
		span.End()
	}()
	err := invoker(ctx, method, req, reply, cc, opts...)
	panicked = false
	setStatus(span, err)
	return err
}

func (s callSpans) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (_ grpc.ClientStream, err error) {
	ctx, span := s.start(ctx, cc, method)
	var once sync.Once
	end := func(err error) {
		once.Do(func() {
			setStatus(span, err)
			span.End()
		})
	}
	panicked := true
	defer func() {
		switch {
		case panicked: // further in
			span.SetStatus(otelcodes.Error, "")
			span.End()
		case err != nil: // also of an interceptor that never got as far as grpc-go
			end(err)
		}
	}()
	// OnFinish is how grpc-go, and the Retrier in its place, tell the end of a
	// stream that nobody receives from any more.
	stream, err := streamer(ctx, desc, cc, method, append(slices.Clip(opts), grpc.OnFinish(end))...)
	panicked = false
	return stream, err
}

func (s callSpans) start(ctx context.Context, cc *grpc.ClientConn, method string) (context.Context, trace.Span) {
	return s.tracer.Start(ctx, methodName(method),
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(methodAttributes(cc.Target(), method)...))
}

// setStatus says how the call ended.
func setStatus(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	code := codes.OK
	if err != nil {
		code = status.Code(err)
	}
	span.SetAttributes(codeAttribute(code))
	if code != codes.OK {
		span.SetAttributes(semconv.ErrorTypeKey.String(codeName(code)))
		span.SetStatus(otelcodes.Error, "")
	}
}
