package interop_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/stats"
)

// server is a test server on loopback TCP that counts what reaches it.
type server struct {
	addr string
	rpcs atomic.Int64
}

// serve starts grpc-go's interop server until the test ends, with fault, if not
// nil, before its handlers.
func serve(t *testing.T, fault *fault) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{addr: l.Addr().String()}
	opts := []grpc.ServerOption{grpc.StatsHandler(s), orca.CallMetricsServerOption(nil)}
	if fault != nil {
		opts = append(opts, grpc.UnaryInterceptor(fault.unary), grpc.StreamInterceptor(fault.stream))
	}
	srv := grpc.NewServer(opts...)
	testgrpc.RegisterTestServiceServer(srv, interop.NewTestServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return s
}

// dial connects until the test ends, with what f needs.
func (s *server) dial(t *testing.T, f function, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if f.dial != nil {
		opts = append(opts, f.dial)
	}
	cc, err := grpc.NewClient("passthrough:///"+s.addr, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// attempts is how many RPCs of any kind arrived, those of unknown methods too.
func (s *server) attempts() int { return int(s.rpcs.Load()) }

// loadReports is what the balancer of orca_per_rpc asks for by itself, below
// the interceptors.
const loadReports = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"

// TagRPC counts: it runs once for each RPC, before its method is looked up.
func (s *server) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if info.FullMethodName != loadReports {
		s.rpcs.Add(1)
	}
	return ctx
}

// HandleRPC does nothing.
func (*server) HandleRPC(context.Context, stats.RPCStats) {}

// TagConn does nothing.
func (*server) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (*server) HandleConn(context.Context, stats.ConnStats) {}
