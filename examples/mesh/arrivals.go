package main

import (
	"math/rand/v2"
	"time"
)

// schedule computes when each user call starts, before the run. The load is
// open: a call starts at its moment whether or not earlier ones have ended, as
// calls do that are caused by users.
func schedule(c config) []time.Duration {
	const stream = 1 // keeps the draws apart from those of fateOf
	random := rand.New(rand.NewPCG(c.Seed, stream))
	calls := make([]time.Duration, 0, int(c.Rate*c.length().Seconds()*1.1)+16)
	at := 0.0
	for {
		at += random.ExpFloat64() / c.Rate
		t := time.Duration(at * float64(time.Second))
		if t >= c.length() {
			return calls
		}
		calls = append(calls, t)
	}
}
