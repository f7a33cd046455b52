package main

import (
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
)

// dialRetrybudget uses this project with its default budget and backoff. That
// GetStock is idempotent, it reads from the proto.
func dialRetrybudget(c config) ([]grpc.DialOption, error) {
	retrier, err := retrybudget.New(retrybudget.WithPolicy(retrybudget.Policy{
		MaxAttempts:       3,
		PerAttemptTimeout: c.AttemptTimeout,
	}))
	if err != nil {
		return nil, err
	}
	return retrier.DialOptions(), nil
}
