// Package openloop says when the calls of the example programs start. The load is
// open: a call starts at its moment whether or not earlier ones have ended, as
// calls do that are caused by users. (Callers that wait for an answer before they
// ask again slow down with the server and hide a storm.)
package openloop

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"
)

// Random returns the generator of the arrivals of a seed. It shares no draw with
// those that fates are made of.
func Random(seed uint64) *rand.Rand {
	const stream = 1
	return rand.New(rand.NewPCG(seed, stream))
}

// Arrivals are the moments of a Poisson process, so many a second on average, up
// to a length. Each is drawn when it is asked for.
func Arrivals(random *rand.Rand, rate float64, length time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		at := 0.0
		for {
			at += random.ExpFloat64() / rate
			t := time.Duration(at * float64(time.Second))
			if t >= length || !yield(t) {
				return
			}
		}
	}
}

// WaitUntil returns false if ctx ended first.
func WaitUntil(ctx context.Context, moment time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	d := time.Until(moment)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
