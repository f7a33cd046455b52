package retrybudget_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// A stock service asks its supplier, which is down, and its own budget has no
// retries to give. Its answer says so, and the caller pays four tokens in place of
// one for each retry. The README shows how the server is made.
func ExampleUnaryServerInterceptor() {
	r, err := retrybudget.New(retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 10})))
	if err != nil {
		log.Fatal(err)
	}
	supplier, hangUpSupplier := dialInventory(nobody())
	defer hangUpSupplier()

	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(retrybudget.UnaryServerInterceptor()),
		grpc.ChainStreamInterceptor(retrybudget.StreamServerInterceptor()))

	target, stop := serveInventoryBy(server, func(ctx context.Context) error {
		_, err := supplier.GetStock(ctx, &quickstartv1.GetStockRequest{Sku: "tea"})
		return err
	})
	defer stop()
	client, hangUp := dialWith(target, r.DialOptions()...)
	defer hangUp()

	_, err = client.GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(status.Code(err))
	for b := range r.Budgets() {
		fmt.Println("two retries left", b.Tokens, "of 10 tokens")
	}
	// Output:
	// Unavailable
	// two retries left 2 of 10 tokens
}

// Requests wait in a queue for a worker. One whose caller has given up meanwhile
// is not worked on: put the interceptor behind the queue.
func ExampleUnaryServerInterceptor_noTimeLeft() {
	workers := make(chan struct{}, 1)
	queue := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		workers <- struct{}{}
		defer func() { <-workers }()
		return handler(ctx, req)
	}
	var served atomic.Int64
	target, stop := serveInventory(func(context.Context) error {
		served.Add(1)
		return nil
	}, grpc.ChainUnaryInterceptor(queue, retrybudget.UnaryServerInterceptor()))
	client, hangUp := dialNatively(target)
	defer hangUp()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()

	workers <- struct{}{} // the only worker is busy
	_, err := client.GetStock(ctx, &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(status.Code(err))
	<-workers // now it is free
	stop()    // waits for the queue to be empty
	fmt.Println("requests worked on:", served.Load())
	// Output:
	// DeadlineExceeded
	// requests worked on: 0
}

// A service that knows when it will be ready again says so. Every gRPC client with
// a retry policy waits for just that long, in place of its own backoff.
func ExampleSetPushback() {
	target, stop := serveInventory(func(ctx context.Context) error {
		if retrybudget.AttemptFromIncomingContext(ctx) > 1 {
			return nil
		}
		if err := retrybudget.SetPushback(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "warming up")
	}, grpc.UnaryInterceptor(retrybudget.UnaryServerInterceptor()))
	defer stop()
	client, hangUp := dialNatively(target)
	defer hangUp()

	start := time.Now()
	stock, err := client.GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(stock.GetQuantity(), err)
	fmt.Println("waited long enough:", time.Since(start) >= 50*time.Millisecond)
	// Output:
	// 12 <nil>
	// waited long enough: true
}

// A service that cannot serve a request, now or in a moment, stops the retries of
// every gRPC client.
func ExampleStopRetries() {
	target, stop := serveInventory(func(ctx context.Context) error {
		fmt.Println("attempt", retrybudget.AttemptFromIncomingContext(ctx))
		if err := retrybudget.StopRetries(ctx); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "closed for stocktaking")
	}, grpc.UnaryInterceptor(retrybudget.UnaryServerInterceptor()))
	defer stop()
	client, hangUp := dialNatively(target)
	defer hangUp()

	_, err := client.GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(status.Convert(err).Message())
	// Output:
	// attempt 1
	// closed for stocktaking
}

// A loaded service sheds retries before first attempts. Where many of the requests
// are retries, their clients are told to stop.
func ExampleWithRetryShedding() {
	full := func(context.Context) bool { return true } // say, more requests under way than workers
	target, stop := serveInventory(func(ctx context.Context) error {
		fmt.Println("attempt", retrybudget.AttemptFromIncomingContext(ctx), "reached the handler")
		return status.Error(codes.Unavailable, "no worker free")
	}, grpc.UnaryInterceptor(retrybudget.UnaryServerInterceptor(retrybudget.WithRetryShedding(full))))
	defer stop()
	client, hangUp := dialNatively(target)
	defer hangUp()

	_, err := client.GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(status.Convert(err).Message())
	// Output:
	// attempt 1 reached the handler
	// retrybudget: overloaded, retries are refused first
}

// stocked is an inventory service that answers if its function returns nil.
type stocked struct {
	quickstartv1.UnimplementedInventoryServiceServer
	handle func(ctx context.Context) error
}

func (s *stocked) GetStock(ctx context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	if err := s.handle(ctx); err != nil {
		return nil, err
	}
	return &quickstartv1.GetStockResponse{Sku: req.GetSku(), Quantity: 12}, nil
}

// serveInventory serves on the loopback interface. stop waits for the handlers.
func serveInventory(handle func(ctx context.Context) error, opts ...grpc.ServerOption) (target string, stop func()) {
	return serveInventoryBy(grpc.NewServer(opts...), handle)
}

func serveInventoryBy(server *grpc.Server, handle func(ctx context.Context) error) (target string, stop func()) {
	l := listen()
	quickstartv1.RegisterInventoryServiceServer(server, &stocked{handle: handle})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with GracefulStop
	}()
	return l.Addr().String(), func() {
		server.GracefulStop()
		<-done
	}
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return l
}

// nobody returns a target where nobody listens.
func nobody() string {
	l := listen()
	defer l.Close()
	return l.Addr().String()
}

// dialInventory connects with a Retrier of its own, whose budgets start empty.
func dialInventory(target string) (client quickstartv1.InventoryServiceClient, hangUp func()) {
	r, err := retrybudget.New()
	if err != nil {
		log.Fatal(err)
	}
	return dialWith(target, r.DialOptions()...)
}

// dialNatively connects without this library, with a retry policy of grpc-go's.
func dialNatively(target string) (client quickstartv1.InventoryServiceClient, hangUp func()) {
	return dialWith(target, grpc.WithDefaultServiceConfig(nativePolicy))
}

func dialWith(target string, opts ...grpc.DialOption) (client quickstartv1.InventoryServiceClient, hangUp func()) {
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	return quickstartv1.NewInventoryServiceClient(conn), func() { _ = conn.Close() }
}
