package main

import (
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
)

// strategy is one way to retry, the same on every edge.
type strategy struct {
	Name  string // on the command line
	Title string // in the table
	About string // how it is set up

	// client returns what one process puts on its connection, given the limit
	// of an attempt there, 0 for none. It is called once for each process, so
	// that state is shared as it would be in production.
	client func(timeout time.Duration) (client, error)
	// server is what A and B, which are clients too, put on their servers.
	server func() []grpc.ServerOption
}

// client is the retrying side of a process.
type client struct {
	options []grpc.DialOption
	retrier *retrybudget.Retrier // nil where the strategy has no budget
}

var strategies = []strategy{
	{
		Name:   "naive",
		Title:  "naive, 3 attempts",
		About:  "a loop written by hand: up to three attempts, one right after the other; UNAVAILABLE and timeouts are retried",
		client: naiveClient,
		server: nothingMore,
	},
	{
		Name:   "middleware",
		Title:  "go-grpc-middleware",
		About:  "v2 retry interceptor, WithMax(3), its default backoff (50 ms ± 10 %) and its default codes",
		client: middlewareClient,
		server: nothingMore,
	},
	{
		Name:   "tokens",
		Title:  "token buckets",
		About:  "retrybudget with its default budget (for each process 20 tokens, empty at first, 0.1 for each success), 3 attempts, default backoff",
		client: tokensClient,
		server: nothingMore,
	},
	{
		Name:   "adaptive",
		Title:  "adaptive budgets, hint",
		About:  "retrybudget with WithBudget(Adaptive()), 3 attempts, default backoff, and UnaryServerInterceptor on A and B",
		client: adaptiveClient,
		server: hintServer,
	},
}

func strategyNames() []string {
	var names []string
	for _, s := range strategies {
		names = append(names, s.Name)
	}
	return names
}

func strategyNamed(name string) (strategy, bool) {
	i := slices.IndexFunc(strategies, func(s strategy) bool { return s.Name == name })
	if i < 0 {
		return strategy{}, false
	}
	return strategies[i], true
}

func nothingMore() []grpc.ServerOption { return nil }
