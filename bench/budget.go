package main

import (
	"errors"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	rb "github.com/retrybudget/retrybudget"
)

const (
	// contenders is how many goroutines use one budget at a time.
	contenders = 8
	atomicAdd  = "one atomic add"
)

// budgetSections measure budgets alone, under contention, against the least that
// any shared count can cost: one atomic addition by the same goroutines.
func budgetSections() []section {
	room := rb.TokenBucketConfig{Capacity: 1_000_000_000, Ratio: 0.001}
	full := rb.TokenBucketConfig{Capacity: 20, Initial: 20}
	empty := rb.TokenBucketConfig{}
	return []section{{name: "budget/8-goroutines", bare: atomicAdd, contestants: []contestant{
		{atomicAdd, addSubject, 0},
		{"TokenBucket, deposit", budgetSubject(room, deposit), 0},
		{"TokenBucket, deposit when full", budgetSubject(full, deposit), 0},
		{"TokenBucket, retry refused", budgetSubject(empty, refuse), 0},
		{"AdaptiveBudget, deposit", budgetSubject(rb.AdaptiveConfig{}, deposit), 0},
		{"Throttle, deposit when full", budgetSubject(rb.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1}, deposit), 0},
	}}}
}

// addSubject adds to one counter that has a cache line to itself.
func addSubject() (subject, error) {
	var counter struct {
		_ [64]byte
		n atomic.Int64
		_ [64]byte
	}
	run := func(n int) error {
		return parallel(contenders, n, func(n int) error {
			for range n {
				counter.n.Add(1)
			}
			return nil
		})
	}
	return subject{run, nothing}, nil
}

func budgetSubject(cfg rb.BudgetConfig, use func(b rb.Budget, n int) error) func() (subject, error) {
	return func() (subject, error) {
		b, err := cfg.NewBudget()
		if err != nil {
			return subject{}, err
		}
		run := func(n int) error {
			return parallel(contenders, n, func(n int) error { return use(b, n) })
		}
		return subject{run, nothing}, nil
	}
}

func deposit(b rb.Budget, n int) error {
	for range n {
		b.RecordSuccess()
	}
	return nil
}

var errGranted = errors.New("bench: an empty budget granted a retry")

func refuse(b rb.Budget, n int) error {
	cause := rb.Cause{Code: codes.Unavailable, Attempt: 1}
	for range n {
		if b.TryTake(cause) {
			return errGranted
		}
	}
	return nil
}
