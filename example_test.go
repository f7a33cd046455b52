package retrybudget_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// The README shows this one. It needs a server to talk to, so it is not run.
//
//nolint:gocritic // the README leaves it open what follows the defer
func ExampleNew() {
	r, err := retrybudget.New()
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("dns:///inventory.example.com:443", append(r.DialOptions(),
		grpc.WithTransportCredentials(credentials.NewTLS(nil)))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}

// Two attempts fail; the budget pays for two retries, and each costs a token.
func ExampleRetrier_Budgets() {
	target, stop := startInventory(2)
	r, err := retrybudget.New(retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 5})))
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(target, append(r.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	defer conn.Close()

	stock, err := quickstartv1.NewInventoryServiceClient(conn).GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(stock.GetQuantity(), err)
	for b := range r.Budgets() {
		fmt.Println(b.Method, b.Tokens, "of", b.Capacity)
	}
	// Output:
	// 12 <nil>
	// /retrybudget.quickstart.v1.InventoryService/GetStock 3 of 20
}

// An interceptor that limits how many calls, or attempts, are under way at a
// time. Which of the two is a matter of its place in the chain.
func limit(permits chan struct{}) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		select {
		case permits <- struct{}{}:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		fmt.Println("permit taken")
		defer func() {
			<-permits
			fmt.Println("permit given back")
		}()
		return invoker(ctx, method, req, reply, cc, opts...)
	}
}

// announce prints the attempts that come through it.
func announce(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	fmt.Println("attempt", retrybudget.AttemptFromContext(ctx))
	return invoker(ctx, method, req, reply, cc, opts...)
}

// Outside, a call holds one permit from its start to its end, waits included:
// the number of calls is bounded.
func Example_bulkheadForTheWholeCall() {
	target, stop := startInventory(1)
	r, err := retrybudget.New(retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 5})))
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(limit(make(chan struct{}, 10)), r.UnaryClientInterceptor(), announce),
		grpc.WithDisableRetry())
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	defer conn.Close()

	_, err = quickstartv1.NewInventoryServiceClient(conn).GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(err)
	// Output:
	// permit taken
	// attempt 1
	// attempt 2
	// permit given back
	// <nil>
}

// Inside, each attempt takes a permit and gives it back before the wait: the
// load on the dependency is bounded.
func Example_bulkheadForEachAttempt() {
	target, stop := startInventory(1)
	r, err := retrybudget.New(retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 5})))
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(r.UnaryClientInterceptor(), limit(make(chan struct{}, 10)), announce),
		grpc.WithDisableRetry())
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	defer conn.Close()

	_, err = quickstartv1.NewInventoryServiceClient(conn).GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
	fmt.Println(err)
	// Output:
	// permit taken
	// attempt 1
	// permit given back
	// permit taken
	// attempt 2
	// permit given back
	// <nil>
}

// inventory is a server that is unavailable for the first few attempts.
type inventory struct {
	quickstartv1.UnimplementedInventoryServiceServer
	failures atomic.Int64
}

func (s *inventory) GetStock(_ context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "restarting")
	}
	return &quickstartv1.GetStockResponse{Sku: req.GetSku(), Quantity: 12}, nil
}

// startInventory serves on the loopback interface until stop is called.
func startInventory(failures int64) (target string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	service := new(inventory)
	service.failures.Store(failures)
	server := grpc.NewServer()
	quickstartv1.RegisterInventoryServiceServer(server, service)
	go func() { _ = server.Serve(l) }() // ends with Stop
	return l.Addr().String(), server.Stop
}
