package main

import (
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget/examples/internal/naive"
)

// dialNaive is the retry loop people write by hand. With one attempt it is the
// control: the same client without retries.
func dialNaive(attempts int) func(config) ([]grpc.DialOption, error) {
	return func(c config) ([]grpc.DialOption, error) {
		return []grpc.DialOption{grpc.WithUnaryInterceptor(naive.Interceptor(attempts, c.AttemptTimeout))}, nil
	}
}
