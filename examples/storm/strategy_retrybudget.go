package main

import (
	"github.com/retrybudget/retrybudget"
)

// newRetrier uses this project with its default backoff and a budget of the
// client's own, the default one if none is given. That GetStock is idempotent, it
// reads from the proto.
func newRetrier(budget func() retrybudget.BudgetFactory) func(config, ...retrybudget.Option) (*retrybudget.Retrier, error) {
	return func(c config, more ...retrybudget.Option) (*retrybudget.Retrier, error) {
		options := []retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts:       3,
			PerAttemptTimeout: c.AttemptTimeout,
		})}
		if budget != nil {
			// Budgets for a target belong to their factory, so each client process
			// has to have one of its own.
			options = append(options, retrybudget.WithBudget(budget()))
		}
		return retrybudget.New(append(options, more...)...)
	}
}

// throttle is gRFC A6's retryThrottling with the numbers of its example, those
// that grpc-go's own gets here too.
func throttle() retrybudget.BudgetFactory {
	return retrybudget.PerTarget(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1})
}
