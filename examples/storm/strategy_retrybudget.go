package main

import (
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
)

// dialRetrybudget uses this project with its default backoff and a budget of the
// client's own, the default one if none is given. That GetStock is idempotent, it
// reads from the proto.
func dialRetrybudget(budget func() retrybudget.BudgetFactory) func(config) ([]grpc.DialOption, error) {
	return func(c config) ([]grpc.DialOption, error) {
		options := []retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts:       3,
			PerAttemptTimeout: c.AttemptTimeout,
		})}
		if budget != nil {
			// Budgets for a target belong to their factory, so each client process
			// has to have one of its own.
			options = append(options, retrybudget.WithBudget(budget()))
		}
		retrier, err := retrybudget.New(options...)
		if err != nil {
			return nil, err
		}
		return retrier.DialOptions(), nil
	}
}

// throttle is gRFC A6's retryThrottling with the numbers of its example, those
// that grpc-go's own gets here too.
func throttle() retrybudget.BudgetFactory {
	return retrybudget.PerTarget(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1})
}
