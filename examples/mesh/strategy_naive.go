package main

import (
	"time"

	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget/examples/internal/naive"
)

// naiveClient is the retry loop people write by hand.
func naiveClient(timeout time.Duration) (client, error) {
	return client{options: []grpc.DialOption{grpc.WithUnaryInterceptor(naive.Interceptor(attempts, timeout))}}, nil
}
