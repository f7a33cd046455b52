package main

import (
	"time"

	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/timeout"
	"google.golang.org/grpc"
)

// dialFailsafe uses failsafe-go's gRPC retry policy with its budget. The first
// policy is the outermost, so the timeout is one of each attempt. What the
// timeout policy returns is no gRPC status and must be named to be retried.
func dialFailsafe(c config) ([]grpc.DialOption, error) {
	retries := failsafegrpc.NewRetryPolicyBuilder[any]().
		HandleErrors(timeout.ErrExceeded).
		WithMaxAttempts(3).
		WithBackoff(50*time.Millisecond, time.Second).
		WithJitterFactor(0.25).
		WithBudget(budget.New()).
		ReturnLastFailure().
		Build()
	return []grpc.DialOption{grpc.WithUnaryInterceptor(
		failsafegrpc.NewUnaryClientInterceptor(retries, timeout.New[any](c.AttemptTimeout)),
	)}, nil
}
