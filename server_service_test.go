package retrybudget_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// service is a server in memory with a unary method, rpctest.Method, and a
// streaming one, streamMethod, which run the same handler. Other than a scripted
// server it has unary handlers, which a unary server interceptor sees, and they
// may be clients themselves.
type service struct {
	l *bufconn.Listener

	mu       sync.Mutex
	arrivals []arrival // seen before the interceptors
	handled  int       // those that reached the handler
}

// arrival is an attempt as it reached the server.
type arrival struct {
	at time.Time
	md metadata.MD
}

// guarded returns the options of a server with the interceptors under test.
func guarded(opts ...retrybudget.ServerOption) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(retrybudget.UnaryServerInterceptor(opts...)),
		grpc.ChainStreamInterceptor(retrybudget.StreamServerInterceptor(opts...)),
	}
}

// serve starts a service until the test ends.
func serve(t testing.TB, handler func(ctx context.Context) error, opts ...grpc.ServerOption) *service {
	t.Helper()
	s := &service{l: bufconn.Listen(1 << 20)}
	srv := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.countUnary),
		grpc.ChainStreamInterceptor(s.countStream),
	}, opts...)...)
	srv.RegisterService(s.describe(handler), nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(s.l) // ends with Stop
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return s
}

// describe returns the service's methods.
func (s *service) describe(handler func(ctx context.Context) error) *grpc.ServiceDesc {
	unary := func(ctx context.Context, req any) (any, error) {
		s.reach()
		if err := handler(ctx); err != nil {
			return nil, err
		}
		return req, nil
	}
	return &grpc.ServiceDesc{
		ServiceName: "test.Service",
		Methods: []grpc.MethodDesc{{MethodName: "Method", Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			req := new(wrapperspb.StringValue)
			if err := decode(req); err != nil {
				return nil, err
			}
			return interceptor(ctx, req, &grpc.UnaryServerInfo{FullMethod: rpctest.Method}, unary)
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			s.reach()
			text, err := recv(stream)
			if err == nil {
				err = handler(stream.Context())
			}
			if err != nil {
				return err
			}
			return send(stream, text)
		}}},
	}
}

func (s *service) arrive(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals = append(s.arrivals, arrival{time.Now(), md})
}

// reach counts an attempt that reached the handler.
func (s *service) reach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled++
}

func (s *service) countUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	s.arrive(ctx)
	return handler(ctx, req)
}

func (s *service) countStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	s.arrive(stream.Context())
	return handler(srv, stream)
}

// dial connects to the service until the test ends.
func (s *service) dial(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///service", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.l.DialContext(ctx) }),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// attempts counts the attempts that arrived.
func (s *service) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals)
}

// runs counts the attempts that reached the handler.
func (s *service) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handled
}

// gaps returns the times between arrivals.
func (s *service) gaps() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(s.arrivals); i++ {
		gaps = append(gaps, s.arrivals[i].at.Sub(s.arrivals[i-1].at))
	}
	return gaps
}

// handlerKinds are the two handlerKinds of call that a service has handlers for.
var handlerKinds = []struct {
	name   string
	method string
	call   func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error
}{
	{"unary", rpctest.Method, rpctest.Call},
	{"stream", streamMethod, callStream},
}

// callStream makes one call of streamMethod and reads it to its end.
func callStream(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	cs, err := cc.NewStream(ctx, serverStream, streamMethod, opts...)
	if err != nil {
		return err
	}
	if err := cs.SendMsg(wrapperspb.String("hello")); err != nil {
		return err
	}
	if err := cs.CloseSend(); err != nil {
		return err
	}
	if err := cs.RecvMsg(new(wrapperspb.StringValue)); err != nil {
		return err
	}
	_, err = recvAll(cs) // OK is io.EOF
	return endOf(err)
}

// endOf is nil for the end of a stream that ended OK.
func endOf(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
