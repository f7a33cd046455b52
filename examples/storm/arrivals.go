package main

import (
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/openloop"
)

// arrival is one call: when it starts and which client makes it.
type arrival struct {
	At     time.Duration // from the start of the run
	Client int
}

// schedule computes every call before the run.
func schedule(c config) []arrival {
	random := openloop.Random(c.Seed)
	calls := make([]arrival, 0, int(c.Rate*c.length().Seconds()*1.1)+16)
	for at := range openloop.Arrivals(random, c.Rate, c.length()) {
		calls = append(calls, arrival{At: at, Client: random.IntN(c.Clients)})
	}
	return calls
}
