// Package interop_test runs grpc-go's interoperability test functions through
// the interceptor, against grpc-go's own test server.
package interop_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/retrybudget/retrybudget"
)

// TestMain sets the logger before anything of gRPC runs, as grpclog asks.
func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(newFatalLogger())
	os.Exit(m.Run())
}

// A function is one of grpc-go's interop test functions.
type function struct {
	name string
	run  func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption)
	dial grpc.DialOption // that it needs on the connection
	// The calls it makes: unary ones that reach a handler or an interceptor of
	// the server, streams, and calls of a service that the server does not have.
	unary, streams, unknown int
	// asksHeader: it asks for headers before the first message, which commits
	// the stream to the attempt that sent them.
	asksHeader bool
	// hasty: it ends its call so early that the attempt may not reach the
	// server, and that the answer of a server that fails may be there before or
	// after; either is then right.
	hasty bool
}

// client makes a function of one that takes a client.
func client(f func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, *grpc.ClientConn, ...grpc.CallOption) {
	return func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) {
		f(ctx, testgrpc.NewTestServiceClient(cc), opts...)
	}
}

// functions has all but those that need a cloud's credentials; DoPickFirstUnary,
// which wants a server id that grpc-go's own test server does not fill in;
// DoORCAOOBTest, which outside of grpc-go waits 30 s for each report; and
// DoSoakTest, which makes the calls of others for hours.
var functions = []function{
	{name: "empty_unary", run: client(interop.DoEmptyUnaryCall), unary: 1},
	{name: "large_unary", run: client(interop.DoLargeUnaryCall), unary: 1},
	{name: "client_streaming", run: client(interop.DoClientStreaming), streams: 1},
	{name: "server_streaming", run: client(interop.DoServerStreaming), streams: 1},
	{name: "ping_pong", run: client(interop.DoPingPong), streams: 1},
	{name: "empty_stream", run: client(interop.DoEmptyStream), streams: 1},
	{name: "cancel_after_begin", run: client(interop.DoCancelAfterBegin), streams: 1, hasty: true},
	{name: "cancel_after_first_response", run: client(interop.DoCancelAfterFirstResponse), streams: 1},
	{name: "timeout_on_sleeping_server", run: client(interop.DoTimeoutOnSleepingServer), streams: 1, hasty: true},
	{name: "custom_metadata", run: client(interop.DoCustomMetadata), unary: 1, streams: 1, asksHeader: true},
	{name: "status_code_and_message", run: client(interop.DoStatusCodeAndMessage), unary: 1, streams: 1},
	{name: "special_status_message", run: client(interop.DoSpecialStatusMessage), unary: 1},
	{
		name: "unimplemented_method",
		run: func(ctx context.Context, cc *grpc.ClientConn, _ ...grpc.CallOption) {
			interop.DoUnimplementedMethod(ctx, cc)
		},
		unary: 1,
	},
	{
		name: "unimplemented_service",
		run: func(ctx context.Context, cc *grpc.ClientConn, _ ...grpc.CallOption) {
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(cc))
		},
		unknown: 1,
	},
	{
		name: "orca_per_rpc",
		run: func(ctx context.Context, cc *grpc.ClientConn, _ ...grpc.CallOption) {
			interop.DoORCAPerRPCTest(ctx, testgrpc.NewTestServiceClient(cc))
		},
		dial:  grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}`),
		unary: 1,
	},
}

// setups are the ways to make the same calls.
var setups = []struct {
	name  string
	with  bool // a Retrier
	fault *fault
}{
	{name: "without"},
	{name: "with", with: true},
	{name: "with, first attempts fail", with: true, fault: &failAtOnce},
	{name: "with, first attempts fail after a message", with: true, fault: &failAfterMessage},
	{name: "with, first attempts fail after headers", with: true, fault: &failAfterHeaders},
}

// newRetrier returns one with retries and a budget.
func newRetrier(t *testing.T) *retrybudget.Retrier {
	t.Helper()
	r, err := retrybudget.New(
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 2, Initial: 2})),
		retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 3, Backoff: retrybudget.ConstantBackoff(time.Millisecond)}),
	)
	require.NoError(t, err)
	return r
}

func TestInterop(t *testing.T) {
	t.Parallel()
	encodings := map[string][]grpc.CallOption{
		"plain": nil,
		"gzip":  {grpc.UseCompressor(gzip.Name)},
	}
	for _, f := range functions {
		for encoding, opts := range encodings {
			for _, s := range setups {
				if s.fault != nil && f.hasty || s.fault == &failAfterHeaders && f.asksHeader {
					continue
				}
				t.Run(f.name+"/"+encoding+"/"+s.name, func(t *testing.T) {
					t.Parallel()
					srv, r := serve(t, s.fault), newRetrier(t)
					var dial []grpc.DialOption
					if s.with {
						dial = r.DialOptions()
					}
					cc := srv.dial(t, f, dial...)

					err := run(func() { f.run(t.Context(), cc, opts...) })

					require.NoError(t, err)
					assert.Zero(t, r.ReplayBytes())
					want := f.unary + f.streams + f.unknown
					if s.fault != nil {
						want += f.unary + f.streams
					}
					if f.hasty {
						assert.LessOrEqual(t, srv.attempts(), want, "attempts that reached the server")
						return
					}
					assert.Equal(t, want, srv.attempts(), "attempts that reached the server")
				})
			}
		}
	}
}

// TestInterop_seesFailures tests the test: what is wrong is reported, and not as
// the end of the process.
func TestInterop_seesFailures(t *testing.T) {
	t.Parallel()
	for _, f := range functions {
		if f.unknown > 0 || f.hasty {
			continue // a call of an unknown service cannot be answered wrongly, nor one that is over
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			cc := serve(t, &failAlways).dial(t, f, newRetrier(t).DialOptions()...)

			err := run(func() { f.run(t.Context(), cc) })

			require.ErrorContains(t, err, "fatal: ")
			assert.Regexp(t, "DataLoss|EOF while sending", err.Error())
		})
	}
}
