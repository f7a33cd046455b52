package breaker_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/examples/breaker"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// The breaker opens after two failed attempts. Five are allowed and there are
// tokens for them, but the breaker refuses the third, and that ends the call. The
// next call reaches neither the server nor the budget.
func Example() {
	cb := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      time.Minute, // until it tries the dependency again
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 2 },
		IsSuccessful: breaker.Answered,
		IsExcluded:   breaker.GivenUp,
	})
	r, err := retrybudget.New(
		retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 5, Backoff: retrybudget.ConstantBackoff(0)}),
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 10})),
	)
	if err != nil {
		log.Fatal(err)
	}
	address, server := serve()
	conn, err := grpc.NewClient(address, append(r.DialOptions(),
		grpc.WithChainUnaryInterceptor(breaker.UnaryClientInterceptor(cb)), // after, so inside
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	defer conn.Close()

	client := quickstartv1.NewInventoryServiceClient(conn)
	for range 2 {
		_, err := client.GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "bolt-m8"})
		fmt.Println(err)
		fmt.Println("attempts at the server:", server.attempts.Load())
		for b := range r.Budgets() {
			fmt.Println("tokens left:", b.Tokens)
		}
	}

	// Output:
	// rpc error: code = Unavailable desc = circuit breaker is open
	// attempts at the server: 2
	// tokens left: 8
	// rpc error: code = Unavailable desc = circuit breaker is open
	// attempts at the server: 2
	// tokens left: 8
}

// brokenServer fails every attempt and counts them.
type brokenServer struct {
	quickstartv1.UnimplementedInventoryServiceServer
	*grpc.Server

	attempts atomic.Int64
}

func (s *brokenServer) GetStock(context.Context, *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	s.attempts.Add(1)
	return nil, status.Error(codes.Unavailable, "the warehouse is on fire")
}

func serve() (string, *brokenServer) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &brokenServer{Server: grpc.NewServer()}
	quickstartv1.RegisterInventoryServiceServer(s, s)
	go func() { _ = s.Serve(listener) }() // until Stop
	return listener.Addr().String(), s
}
