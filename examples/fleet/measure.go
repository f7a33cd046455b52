package main

import (
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

// capacity is that of the library's default budget.
const capacity = 20

// measured is a row of the table.
type measured struct {
	Strategy strategy

	Calls    int
	Attempts int
	Bound    float64 // of the retries in the overload
	Retries  int     // that arrived in the overload
	Worst    int     // most retries in any second
	InFault  tally.Share
	After    tally.Share
}

// reporting is how long before the overload a success may come to count in it: a
// Period and two Timeouts of providers/redis.
const reporting = 300 * time.Millisecond

func measureAll(c config, worlds []*world, start time.Time) result {
	r := result{Config: c}
	var late []time.Duration
	for _, w := range worlds {
		r.Rows = append(r.Rows, measure(c, w, start))
		for _, seen := range w.seen {
			late = append(late, seen.Late...)
		}
	}
	r.Late = tally.Percentile(late, 99)
	return r
}

func measure(c config, w *world, start time.Time) measured {
	m := measured{Strategy: w.strategy}
	end := c.Health + c.Fault
	earned := 0.0
	for process, seen := range w.seen {
		for i, at := range c.arrivals(process) {
			m.Calls++
			ok := seen.OK[i]
			if ok && w.service.Attempts(w.first[process]+i) == 1 && seen.Ended[i] >= c.Health-reporting && seen.Ended[i] < end {
				earned += 0.1
			}
			switch {
			case at >= end:
				m.After.Add(ok)
			case at >= c.Health:
				m.InFault.Add(ok)
			}
		}
	}
	if n := w.strategy.budgets(c.Processes); n > 0 {
		m.Bound = float64(n*capacity) + earned
	}
	m.Attempts = w.arrivals.Total()
	retries := w.retries.Since(start)
	for _, at := range retries {
		if at >= c.Health && at < end {
			m.Retries++
		}
	}
	m.Worst = tally.MostIn(time.Second, retries)
	return m
}
