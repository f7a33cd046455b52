package node_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/retrybudget/retrybudget"
)

// methods are the methods of a server: unary and streaming.
var methods = map[bool]string{false: "/test.Service/Method", true: "/test.Service/Stream"}

// server is a server with the interceptors on loopback TCP. Its handler gets the
// number of the attempt.
type server struct {
	target string

	mu      sync.Mutex
	arrived []time.Time // seen before the interceptors
	handled int
}

func serve(t *testing.T, handler func(ctx context.Context, attempt int) error, opts ...retrybudget.ServerOption) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{target: l.Addr().String()}
	srv := grpc.NewServer(
		grpc.ChainUnaryInterceptor(
			func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				s.arrive()
				return handler(ctx, req)
			},
			retrybudget.UnaryServerInterceptor(opts...)),
		grpc.ChainStreamInterceptor(
			func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				s.arrive()
				return handler(srv, stream)
			},
			retrybudget.StreamServerInterceptor(opts...)))
	srv.RegisterService(s.describe(handler), nil)
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

// describe returns both methods, which take and return google.protobuf.Empty.
func (s *server) describe(handler func(ctx context.Context, attempt int) error) *grpc.ServiceDesc {
	handle := func(ctx context.Context) error {
		s.mu.Lock()
		s.handled++
		s.mu.Unlock()
		return handler(ctx, retrybudget.AttemptFromIncomingContext(ctx))
	}
	return &grpc.ServiceDesc{
		ServiceName: "test.Service",
		Methods: []grpc.MethodDesc{{MethodName: "Method", Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			req := new(emptypb.Empty)
			if err := decode(req); err != nil {
				return nil, err
			}
			return interceptor(ctx, req, &grpc.UnaryServerInfo{FullMethod: methods[false]}, func(ctx context.Context, req any) (any, error) {
				if err := handle(ctx); err != nil {
					return nil, err
				}
				return req, nil
			})
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			req := new(emptypb.Empty)
			if err := stream.RecvMsg(req); err != nil {
				return err
			}
			if err := handle(stream.Context()); err != nil {
				return err
			}
			return stream.SendMsg(req)
		}}},
	}
}

func (s *server) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = append(s.arrived, time.Now())
}

// arrivals returns when the attempts arrived.
func (s *server) arrivals() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrived)
}

// runs counts the attempts that reached the handler.
func (s *server) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handled
}

// callNobody makes a call that fails because nobody listens, and that the empty
// budget does not retry.
func callNobody(ctx context.Context, t *testing.T) error {
	t.Helper()
	r, err := retrybudget.New()
	if !assert.NoError(t, err) {
		return err
	}
	cc, err := grpc.NewClient("passthrough:///nobody", append(r.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }))...)
	if !assert.NoError(t, err) {
		return err
	}
	defer cc.Close()
	err = cc.Invoke(ctx, methods[false], new(emptypb.Empty), new(emptypb.Empty))
	assert.ErrorIs(t, err, retrybudget.ErrBudgetExhausted)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	return err
}
