package main

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	rb "github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// rpcStretch makes runs of whole calls this many times longer.
const rpcStretch = 4

// rpcSections measure whole calls to a server in the same process; what client
// and server do both counts.
func rpcSections() []section {
	var all []section
	for _, n := range []struct {
		name   string
		listen func() (network, error)
	}{{"bufconn", listenBufconn}, {"tcp", listenTCP}} {
		all = append(all,
			rpcSection(n.name+"/1-caller", n.listen, 1, 0),
			rpcSection(n.name+"/64-callers", n.listen, 64, 0))
	}
	return append(all, rpcSection("bufconn/fails-twice", listenBufconn, 1, 2))
}

// rpcSection measures calls by so many callers at a time. The first fails
// attempts of every call are answered UNAVAILABLE, which needs a single caller.
func rpcSection(name string, listen func() (network, error), callers, fails int) section {
	budget := rb.PerMethod(rb.TokenBucketConfig{})
	bare := intercepted(func() (grpc.UnaryClientInterceptor, error) { return tryUntilOK, nil })
	if fails == 0 {
		bare = dialBare
	} else {
		budget = rb.Unlimited()
	}
	enter := func(name string, dial func() ([]grpc.DialOption, error)) contestant {
		return contestant{name, rpcSubject(listen, dial, callers, fails), -1}
	}
	return section{name: name, bare: bareName, stretch: rpcStretch, contestants: []contestant{
		enter(bareName, bare),
		enter(retrybudget, dialRetrybudget(budget)),
		enter(middleware, intercepted(middlewareInterceptor)),
		enter(native, dialNative),
		enter(failsafe, intercepted(failsafeInterceptor)),
	}}
}

// network is where a server and its clients meet.
type network struct {
	listener net.Listener
	target   string
	dial     []grpc.DialOption
}

func listenBufconn() (network, error) {
	l := bufconn.Listen(1 << 20)
	return network{l, "passthrough:///bufconn", []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
	}}, nil
}

func listenTCP() (network, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return network{}, err
	}
	return network{listener: l, target: "passthrough:///" + l.Addr().String()}, nil
}

// service answers GetStock. Of fails+1 attempts in a row the last is OK.
type service struct {
	quickstartv1.UnimplementedInventoryServiceServer

	fails    int64
	attempts atomic.Int64
}

// GetStock answers with the article it was asked for.
func (s *service) GetStock(_ context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	if s.attempts.Add(1)%(s.fails+1) != 0 {
		return nil, errUnavailable
	}
	return &quickstartv1.GetStockResponse{Sku: req.GetSku(), Quantity: 7}, nil
}

// connect starts a server and connects to it. stop ends both.
func connect(listen func() (network, error), dial func() ([]grpc.DialOption, error), s quickstartv1.InventoryServiceServer) (cc *grpc.ClientConn, stop func(), err error) {
	own, err := dial()
	if err != nil {
		return nil, nil, err
	}
	n, err := listen()
	if err != nil {
		return nil, nil, err
	}
	cc, err = grpc.NewClient(n.target, append(append(own, n.dial...), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		_ = n.listener.Close()
		return nil, nil, err
	}
	srv := grpc.NewServer()
	quickstartv1.RegisterInventoryServiceServer(srv, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(n.listener) // ends with Stop
	}()
	return cc, func() {
		_ = cc.Close()
		srv.Stop()
		<-done
	}, nil
}

// rpcSubject is a server with one client connection.
func rpcSubject(listen func() (network, error), dial func() ([]grpc.DialOption, error), callers, fails int) func() (subject, error) {
	return func() (subject, error) {
		s := &service{fails: int64(fails)}
		cc, stop, err := connect(listen, dial, s)
		if err != nil {
			return subject{}, err
		}
		return subject{run: func(n int) error { return s.run(cc, callers, n) }, close: stop}, nil
	}
}

// run makes n calls and checks how many attempts they came to.
func (s *service) run(cc *grpc.ClientConn, callers, n int) error {
	before := s.attempts.Load()
	client := quickstartv1.NewInventoryServiceClient(cc)
	err := parallel(callers, n, func(n int) error {
		ctx, req := context.Background(), &quickstartv1.GetStockRequest{Sku: "A-113"}
		for range n {
			if _, err := client.GetStock(ctx, req); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && s.attempts.Load()-before != int64(n)*(s.fails+1) {
		err = errNotRetried
	}
	return err
}
