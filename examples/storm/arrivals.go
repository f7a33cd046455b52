package main

import (
	"math/rand/v2"
	"time"
)

// arrival is one call: when it starts and which client makes it.
type arrival struct {
	At     time.Duration // from the start of the run
	Client int
}

// schedule computes every call before the run. The load is open: a call starts
// at its moment whether or not earlier ones have ended, as calls do that are
// caused by users. (Callers that wait for an answer before they ask again slow
// down with the server and hide a storm.)
func schedule(c config) []arrival {
	const stream = 1 // keeps the draws apart from those of fateOf
	random := rand.New(rand.NewPCG(c.Seed, stream))
	calls := make([]arrival, 0, int(c.Rate*c.length().Seconds()*1.1)+16)
	at := 0.0
	for {
		at += random.ExpFloat64() / c.Rate
		t := time.Duration(at * float64(time.Second))
		if t >= c.length() {
			return calls
		}
		calls = append(calls, arrival{At: t, Client: random.IntN(c.Clients)})
	}
}
