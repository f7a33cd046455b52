package main

import (
	"time"

	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
)

// tokensClient uses this project with its default budget. That GetStock is
// idempotent, it reads from the proto.
func tokensClient(timeout time.Duration) (client, error) {
	return retrierClient(timeout)
}

// adaptiveClient uses this project's adaptive budgets.
func adaptiveClient(timeout time.Duration) (client, error) {
	return retrierClient(timeout, retrybudget.WithBudget(retrybudget.Adaptive()))
}

func retrierClient(timeout time.Duration, options ...retrybudget.Option) (client, error) {
	retrier, err := retrybudget.New(append(options, retrybudget.WithPolicy(retrybudget.Policy{
		MaxAttempts:       attempts,
		PerAttemptTimeout: timeout,
	}))...)
	if err != nil {
		return client{}, err
	}
	return client{options: retrier.DialOptions(), retrier: retrier}, nil
}

// hintServer lets callers know that retries are refused further down.
func hintServer() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(retrybudget.UnaryServerInterceptor())}
}
