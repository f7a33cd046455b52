package main

import (
	"slices"

	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
)

// strategy is one way for a client to retry.
type strategy struct {
	Name  string // on the command line
	Title string // in table and report
	About string // how it is set up, for the report

	// dial returns what one client process puts on its connection. It is
	// called once a client, so that state is shared as it would be in
	// production: within a process, not between processes.
	dial func(c config) ([]grpc.DialOption, error)
	// retrier stands for dial in the strategies of this project.
	retrier func(c config, more ...retrybudget.Option) (*retrybudget.Retrier, error)
}

// options returns what one client process puts on its connection. If it is one of
// this project's, watch may look at it.
func (s strategy) options(c config, watch *watched) ([]grpc.DialOption, error) {
	if s.retrier == nil {
		return s.dial(c)
	}
	r, err := s.retrier(c, watch.options()...)
	if err != nil {
		return nil, err
	}
	watch.add(r)
	return r.DialOptions(), nil
}

var strategies = []strategy{
	{
		Name:  "none",
		Title: "no retries",
		About: "one attempt with the attempt timeout: what the fault alone does",
		dial:  dialNaive(1),
	},
	{
		Name:  "naive",
		Title: "naive, 3 attempts",
		About: "a loop written by hand: up to three attempts, one right after the other, each with the attempt timeout; UNAVAILABLE and timeouts are retried",
		dial:  dialNaive(3),
	},
	{
		Name:  "middleware",
		Title: "go-grpc-middleware retry",
		About: "v2 retry interceptor, WithMax(3), WithPerRetryTimeout, its default backoff (50 ms ± 10 %) and its default codes",
		dial:  dialMiddleware,
	},
	{
		Name:  "grpc",
		Title: "grpc-go retryPolicy",
		About: "service config with maxAttempts 3, backoff 50 ms × 2 up to 1 s, UNAVAILABLE; no attempt timeout exists, an attempt may take the whole call deadline",
		dial:  dialNative(false),
	},
	{
		Name:  "grpc-throttled",
		Title: "grpc-go + retryThrottling",
		About: "the same with retryThrottling maxTokens 10, tokenRatio 0.1 (the example of gRFC A6)",
		dial:  dialNative(true),
	},
	{
		Name:  "failsafe",
		Title: "failsafe-go + budget",
		About: "failsafegrpc's retry policy (3 attempts, backoff 50 ms × 2 up to 1 s) with budget.New() (a fifth of the calls in flight, at least 3 at once), around its timeout policy",
		dial:  dialFailsafe,
	},
	{
		Name:    "retrybudget",
		Title:   "retrybudget",
		About:   "default budget (20 tokens, empty at first, 0.1 for each success), 3 attempts, per-attempt timeout, default backoff",
		retrier: newRetrier(nil),
	},
	{
		Name:    "retrybudget-adaptive",
		Title:   "retrybudget adaptive",
		About:   "the same with WithBudget(Adaptive()): a budget for each method (reserve 2) and one for the target (reserve 3), 0.1 for each success, above the reserve half of it lost in 2 s",
		retrier: newRetrier(retrybudget.Adaptive),
	},
	{
		Name:    "retrybudget-throttle",
		Title:   "retrybudget throttle",
		About:   "the same with WithBudget(PerTarget(ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1})): gRFC A6's rule, which grpc-go + retryThrottling has too, with attempt timeouts",
		retrier: newRetrier(throttle),
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
