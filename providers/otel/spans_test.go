package otel_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

var bothWays = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// openStream opens a stream of rpctest.Method and sends a message.
func openStream(ctx context.Context, cc *grpc.ClientConn) (grpc.ClientStream, error) {
	stream, err := cc.NewStream(ctx, bothWays, rpctest.Method)
	if err == nil {
		err = stream.SendMsg(wrapperspb.String("hello"))
	}
	return stream, err
}

func receive(stream grpc.ClientStream) error { return stream.RecvMsg(new(wrapperspb.StringValue)) }

// echo answers each message with itself until the client is done sending.
func echo(stream grpc.ServerStream) error {
	for {
		var m wrapperspb.StringValue
		if err := stream.RecvMsg(&m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&m); err != nil {
			return err
		}
	}
}

func fail(code codes.Code) func(grpc.ServerStream) error {
	return func(grpc.ServerStream) error { return status.Error(code, "secret text") }
}

func TestCallSpans_unary(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		steps    []rpctest.Step
		code     string
		duration time.Duration
	}{
		{"OK", []rpctest.Step{rpctest.OK()}, "OK", 0},
		{"after a retry", []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}, "OK", time.Second},
		{"failed", []rpctest.Step{rpctest.Fail(codes.Unavailable, "secret text")}, "UNAVAILABLE", 2 * time.Second},
		{"cancelled", []rpctest.Step{rpctest.Fail(codes.Canceled, "secret text")}, "CANCELLED", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				tp, spans := newTraces()
				ctx, parent := tp.Tracer("test").Start(t.Context(), "parent")
				cc := s.Dial(t, slices.Concat(retryotel.CallSpans(tp), newRetrier(t, every(time.Second, 3)).DialOptions())...)
				err := rpctest.Call(ctx, cc)

				require.Len(t, spans.GetSpans(), 1)
				span := spans.GetSpans()[0]
				assert.Equal(t, method, span.Name)
				assert.Equal(t, trace.SpanKindInternal, span.SpanKind)
				assert.Equal(t, parent.SpanContext().SpanID(), span.Parent.SpanID())
				assert.Equal(t, tt.duration, span.EndTime.Sub(span.StartTime), "all attempts and waits")
				want := []attribute.KeyValue{
					attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", method), attribute.String("server.address", "bufnet"),
					attribute.String("rpc.response.status_code", tt.code),
				}
				wantStatus := sdktrace.Status{}
				if tt.code != "OK" {
					require.Error(t, err)
					want = append(want, attribute.String("error.type", tt.code))
					wantStatus.Code = otelcodes.Error
				}
				assert.Equal(t, want, span.Attributes)
				assert.Equal(t, wantStatus, span.Status, "never an error's text")
			})
		})
	}
}

func TestCallSpans_streams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		handlers []func(grpc.ServerStream) error
		use      func(t *testing.T, stream grpc.ClientStream, cancel func())
		code     string
		attempts int
	}{
		{"OK after a retry", []func(grpc.ServerStream) error{fail(codes.Unavailable), echo}, func(t *testing.T, stream grpc.ClientStream, _ func()) {
			require.NoError(t, stream.CloseSend())
			require.NoError(t, receive(stream))
			require.Equal(t, io.EOF, receive(stream))
		}, "OK", 2},
		{"all attempts fail", []func(grpc.ServerStream) error{fail(codes.Unavailable)}, func(t *testing.T, stream grpc.ClientStream, _ func()) {
			require.Error(t, receive(stream))
		}, "UNAVAILABLE", 3},
		{"fails after a message", []func(grpc.ServerStream) error{func(stream grpc.ServerStream) error {
			_ = stream.SendMsg(wrapperspb.String("one"))
			return status.Error(codes.Unavailable, "secret text")
		}}, func(t *testing.T, stream grpc.ClientStream, _ func()) {
			require.NoError(t, receive(stream))
			require.Error(t, receive(stream))
		}, "UNAVAILABLE", 1},
		{"abandoned before a message", []func(grpc.ServerStream) error{echo}, func(_ *testing.T, _ grpc.ClientStream, cancel func()) {
			cancel()
		}, "CANCELLED", 1},
		{"abandoned after a message", []func(grpc.ServerStream) error{echo}, func(t *testing.T, stream grpc.ClientStream, cancel func()) {
			require.NoError(t, receive(stream))
			cancel()
		}, "CANCELLED", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, with := range []string{"a Retrier", "no Retrier"} {
				if with == "no Retrier" && tt.attempts > 1 {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					s := rpctest.New()
					s.Streams(rpctest.Method, tt.handlers...)
					tp, spans := newTraces()
					options := retryotel.CallSpans(tp)
					if with == "a Retrier" {
						options = append(options, newRetrier(t, every(time.Second, 3)).DialOptions()...)
					}
					cc := s.Dial(t, options...)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					stream, err := openStream(ctx, cc)
					require.NoError(t, err)
					assert.Empty(t, spans.GetSpans(), "it goes on")
					tt.use(t, stream, cancel)
					synctest.Wait()

					require.Len(t, spans.GetSpans(), 1, with)
					assert.Contains(t, spans.GetSpans()[0].Attributes, attribute.String("rpc.response.status_code", tt.code), with)
					assert.Equal(t, tt.attempts, s.Attempts(""))
				})
			}
		})
	}
}

// An interceptor between may end the stream before grpc-go hears of it.
func TestCallSpans_streamThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	refuse := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	tp, spans := newTraces()
	cc := rpctest.New().Dial(t, append(retryotel.CallSpans(tp), grpc.WithChainStreamInterceptor(refuse))...)
	_, err := openStream(t.Context(), cc)
	require.Error(t, err)
	require.Len(t, spans.GetSpans(), 1)
	assert.Contains(t, spans.GetSpans()[0].Attributes, attribute.String("rpc.response.status_code", "PERMISSION_DENIED"))

	// The Retrier refuses an invalid option before it opens anything.
	spans.Reset()
	cc = rpctest.New().Dial(t, append(retryotel.CallSpans(tp), newRetrier(t).DialOptions()...)...)
	_, err = cc.NewStream(t.Context(), bothWays, rpctest.Method, retrybudget.CallMaxAttempts(-1))
	require.Error(t, err)
	require.Len(t, spans.GetSpans(), 1, "once, though the end is told twice")
	assert.Contains(t, spans.GetSpans()[0].Attributes, attribute.String("rpc.response.status_code", "INTERNAL"))
}

func TestCallSpans_endAfterAPanic(t *testing.T) {
	t.Parallel()
	tp, spans := newTraces()
	cc := rpctest.New().Dial(t, append(retryotel.CallSpans(tp),
		grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			panic("unary")
		}),
		grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			panic("stream")
		}))...)
	assert.PanicsWithValue(t, "unary", func() { _ = rpctest.Call(t.Context(), cc) })
	assert.PanicsWithValue(t, "stream", func() { _, _ = openStream(t.Context(), cc) })
	require.Len(t, spans.GetSpans(), 2)
	for _, span := range spans.GetSpans() {
		assert.Equal(t, sdktrace.Status{Code: otelcodes.Error}, span.Status)
	}
}

// The caller's options are only read: there may be room behind them.
func TestCallSpans_leaveOptionsAlone(t *testing.T) {
	t.Parallel()
	tp, _ := newTraces()
	s := rpctest.New()
	s.Streams(rpctest.Method, echo)
	opts := make([]grpc.CallOption, 1, 4)
	opts[0] = grpc.StaticMethod()
	var seen []grpc.CallOption
	cc := s.Dial(t, append([]grpc.DialOption{grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			seen = opts[:cap(opts)]
			return stream, err
		})}, retryotel.CallSpans(tp)...)...)
	_, err := openStream(t.Context(), cc)
	require.NoError(t, err)
	assert.Equal(t, []grpc.CallOption{grpc.StaticMethod(), nil, nil, nil}, seen)
}

// A trace that is not sampled goes on to the server, and nothing is written.
func TestCallSpans_notSampled(t *testing.T) {
	t.Parallel()
	s := rpctest.New()
	s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
	tp, spans := newTraces(sdktrace.WithSampler(sdktrace.NeverSample()))
	var inside trace.SpanContext
	cc := s.Dial(t, slices.Concat(retryotel.CallSpans(tp),
		newRetrier(t, every(0, 2), retrybudget.WithObserver(retryotel.SpanEvents{})).DialOptions(),
		[]grpc.DialOption{
			grpc.WithStatsHandler(retryotel.NewAttemptHandler()),
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				inside = trace.SpanContextFromContext(ctx)
				return invoker(ctx, method, req, reply, cc, opts...)
			}),
		})...)
	require.NoError(t, rpctest.Call(t.Context(), cc))
	assert.Empty(t, spans.GetSpans())
	assert.True(t, inside.IsValid())
	assert.False(t, inside.IsSampled())
}

func TestCallSpans_nilPanics(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "retrybudget: CallSpans: nil TracerProvider", func() { retryotel.CallSpans(nil) })
}
