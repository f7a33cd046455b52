package main

import (
	"sync/atomic"

	"github.com/retrybudget/retrybudget"
	retryprom "github.com/retrybudget/retrybudget/providers/prometheus"
)

// watched is what a strategy of this project shows of itself with -serve: the
// metrics of its clients, and the state of their budgets. A nil one shows
// nothing and costs the calls nothing.
type watched struct {
	retrybudget.NopObserver

	metrics  *retryprom.Metrics
	retriers []*retrybudget.Retrier // of each client; complete before the story begins
	refused  atomic.Int64           // retries that a budget refused
}

func newWatched() *watched { return &watched{metrics: retryprom.NewMetrics()} }

// RetryRefused counts.
func (w *watched) RetryRefused(e retrybudget.RefusalEvent) {
	if e.Reason == retrybudget.ReasonBudget {
		w.refused.Add(1)
	}
}

// options are what a client's Retrier is made with.
func (w *watched) options() []retrybudget.Option {
	if w == nil {
		return nil
	}
	return []retrybudget.Option{retrybudget.WithObserver(w.metrics), retrybudget.WithObserver(w)}
}

func (w *watched) add(r *retrybudget.Retrier) {
	if w != nil {
		w.metrics.Watch(r)
		w.retriers = append(w.retriers, r)
	}
}

// tokens is what the budgets of all clients hold.
func (w *watched) tokens() (sum float64) {
	for _, r := range w.retriers {
		for b := range r.Budgets() {
			sum += b.Tokens
		}
	}
	return sum
}
