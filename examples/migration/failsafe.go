package migration

import (
	"time"

	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/timeout"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// FailsafeBefore retries with failsafe-go: a time limit of the call around a retry
// policy with a budget, around a time limit of each attempt.
func FailsafeBefore() []grpc.DialOption {
	retries := failsafegrpc.NewRetryPolicyBuilder[any]().
		HandleErrors(timeout.ErrExceeded).
		WithMaxAttempts(3).
		WithBackoff(100*time.Millisecond, time.Second).
		WithJitterFactor(0.2).
		WithBudget(budget.NewBuilder().WithMaxRate(0.1).Build()).
		ReturnLastFailure().
		Build()
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(
			timeout.New[any](2*time.Second),
			retries,
			timeout.New[any](500*time.Millisecond),
		)),
	}
}

// FailsafeAfter is the same with retrybudget, as near as it gets.
func FailsafeAfter() ([]grpc.DialOption, error) {
	r, err := retrybudget.New(
		retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: 3,
			Backoff: retrybudget.ExponentialBackoff{
				Initial: 100 * time.Millisecond,
				Max:     time.Second,
				Jitter:  retrybudget.JitterA6, // a fifth up or down
			},
			RetryableCodes:    []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted},
			PerAttemptTimeout: 500 * time.Millisecond,
			Timeout:           2 * time.Second,
		}),
		retrybudget.WithBudget(retrybudget.Adaptive()),
	)
	if err != nil {
		return nil, err
	}
	return r.DialOptions(), nil
}
