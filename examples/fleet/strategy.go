package main

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/examples/internal/naive"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// strategy is one way for the processes to retry.
type strategy struct {
	Name  string
	About string
	// client sets up one process. It returns what goes on its connection, and what
	// to do at the end, if anything.
	client func(j job) ([]grpc.DialOption, func(context.Context) error, error)
	// budgets is how many there are, for a number of processes.
	budgets func(processes int) int
}

var strategies = []strategy{
	{
		Name:    "no retries",
		About:   "one attempt with the attempt timeout: what the overload alone does",
		client:  noRetries,
		budgets: func(int) int { return 0 },
	},
	{
		Name:    "a budget in each process",
		About:   "the default budget: 20 tokens, empty at first, 0.1 for each success; three attempts",
		client:  localBudgets,
		budgets: func(processes int) int { return processes },
	},
	{
		Name:    "one budget for all",
		About:   "the same budget in Redis, once: providers/redis with its defaults",
		client:  sharedBudget,
		budgets: func(int) int { return 1 },
	},
}

func noRetries(j job) ([]grpc.DialOption, func(context.Context) error, error) {
	options := []grpc.DialOption{grpc.WithDisableRetry(), grpc.WithChainUnaryInterceptor(naive.Interceptor(1, j.Config.AttemptTimeout))}
	return options, nil, nil
}

func localBudgets(j job) ([]grpc.DialOption, func(context.Context) error, error) {
	retrier, err := newRetrier(j)
	if err != nil {
		return nil, nil, err
	}
	return retrier.DialOptions(), nil, nil
}

func sharedBudget(j job) ([]grpc.DialOption, func(context.Context) error, error) {
	client := goredis.NewClient(&goredis.Options{Addr: j.Redis, ContextTimeoutEnabled: true})
	fleet, err := redis.New(client, redis.Config{Prefix: j.Prefix})
	if err != nil {
		return nil, nil, err
	}
	retrier, err := newRetrier(j, retrybudget.WithBudget(fleet.Budget))
	if err != nil {
		return nil, nil, err
	}
	end := func(ctx context.Context) error {
		defer client.Close()
		return fleet.Close(ctx)
	}
	return retrier.DialOptions(), end, nil
}

func newRetrier(j job, more ...retrybudget.Option) (*retrybudget.Retrier, error) {
	policy := retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 3, PerAttemptTimeout: j.Config.AttemptTimeout})
	return retrybudget.New(append(more, policy)...)
}
