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
}

// client makes a function of one that takes a client.
func client(f func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, *grpc.ClientConn, ...grpc.CallOption) {
	return func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) {
		f(ctx, testgrpc.NewTestServiceClient(cc), opts...)
	}
}

// functions has those with a unary call, but for the ones that need a cloud's
// credentials, and DoPickFirstUnary, which wants a server id that grpc-go's own
// test server does not fill in. Where a function goes on with a stream, the
// stream takes whatever interceptors the connection has for it.
var functions = []function{
	{name: "empty_unary", run: client(interop.DoEmptyUnaryCall), unary: 1},
	{name: "large_unary", run: client(interop.DoLargeUnaryCall), unary: 1},
	{name: "custom_metadata", run: client(interop.DoCustomMetadata), unary: 1, streams: 1},
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
	dial  func(t *testing.T) []grpc.DialOption
	fault grpc.UnaryServerInterceptor
}{
	{name: "without", dial: without},
	{name: "with", dial: with},
	{name: "with, first attempts fail", dial: with, fault: failFirstAttempts},
}

func without(*testing.T) []grpc.DialOption { return nil }

// with puts a Retrier with retries and a budget on the connection.
func with(t *testing.T) []grpc.DialOption {
	r, err := retrybudget.New(
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 2, Initial: 2})),
		retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 3, Backoff: retrybudget.ConstantBackoff(time.Millisecond)}),
	)
	require.NoError(t, err)
	return r.DialOptions()
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
				t.Run(f.name+"/"+encoding+"/"+s.name, func(t *testing.T) {
					t.Parallel()
					srv := serve(t, s.fault)
					cc := srv.dial(t, f, s.dial(t)...)

					err := run(func() { f.run(t.Context(), cc, opts...) })

					require.NoError(t, err)
					want := f.unary + f.streams + f.unknown
					if s.fault != nil {
						want += f.unary
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
		if f.unary == 0 {
			continue // a call of an unknown service cannot be answered wrongly
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			cc := serve(t, failAlways).dial(t, f, with(t)...)

			err := run(func() { f.run(t.Context(), cc) })

			require.ErrorContains(t, err, "fatal: ")
			assert.ErrorContains(t, err, "DataLoss")
		})
	}
}
