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
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/retrybudget/retrybudget"
)

// The README shows the options. The methods fail; after forty successful calls of
// each there are tokens for four retries.
func ExampleWithMethodPolicy() {
	r, err := retrybudget.New(
		retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4}),
		retrybudget.WithMethodPolicy("/retrybudget.quickstart.v1.InventoryService/GetStock", retrybudget.Policy{
			MaxAttempts: 5,
			Timeout:     2 * time.Second, // not for all methods: it would end streams too
		}),
		retrybudget.WithMethodPolicy("/retrybudget.quickstart.v1.InventoryService/ReserveStock", retrybudget.Policy{
			Idempotency: retrybudget.NonIdempotent,
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("attempts at GetStock:", attemptsOfFailure(r, getStock))
	fmt.Println("attempts at ReserveStock:", attemptsOfFailure(r, reserveStock))
	// Output:
	// attempts at GetStock: 5
	// attempts at ReserveStock: 1
}

// The README shows how to connect. Here the service config is the dial option's
// and not a resolver's, and it allows two attempts.
func ExampleWithResolverPolicies() {
	r, err := retrybudget.New(retrybudget.WithResolverPolicies())
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("dns:///inventory.example.com:443", append(r.DialOptions(),
		grpc.WithTransportCredentials(credentials.NewTLS(nil)))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	fmt.Println("attempts at GetStock:", attemptsOfFailure(r, getStock, grpc.WithDefaultServiceConfig(twoAttempts)))
	// Output:
	// attempts at GetStock: 2
}

// attemptsOfFailure makes forty calls of a method that succeed, and then one that
// fails, to a server on the loopback interface, and returns how often that one
// was tried.
func attemptsOfFailure(r *retrybudget.Retrier, method string, opts ...grpc.DialOption) int64 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	var attempts atomic.Int64
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if attempts.Add(1) > 40 {
			return status.Error(codes.Unavailable, "restarting")
		}
		return stream.SendMsg(&emptypb.Empty{})
	}))
	conn, err := grpc.NewClient(l.Addr().String(), append(append(r.DialOptions(), opts...),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(l) }() // ends with Stop
	defer server.Stop()
	defer conn.Close()
	for range 41 {
		err = conn.Invoke(context.Background(), method, &emptypb.Empty{}, &emptypb.Empty{})
	}
	if status.Code(err) != codes.Unavailable {
		panic(err)
	}
	return attempts.Load() - 40
}
