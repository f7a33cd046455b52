package main

import (
	"slices"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/openloop"
)

// schedule computes when each user call starts, before the run.
func schedule(c config) []time.Duration {
	return slices.Collect(openloop.Arrivals(openloop.Random(c.Seed), c.Rate, c.length()))
}
