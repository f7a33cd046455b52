package main

import "time"

// series is what the charts show: rates a second, one value for each bin.
type series struct {
	Bin     time.Duration
	Offered []float64 // attempts that reached the server
	Goodput []float64 // calls that ended OK, by the moment they ended
}

// seriesOf counts into bins: the last, incomplete one of a run that was cut off
// is left out, because half a bin looks like a fall.
func seriesOf(seen observation, until time.Duration) series {
	s := series{Bin: time.Second}
	if until < 30*time.Second {
		s.Bin = 500 * time.Millisecond
	}
	bins := int(until / s.Bin)
	s.Offered = make([]float64, bins)
	s.Goodput = make([]float64, bins)
	each := 1 / s.Bin.Seconds()
	count := func(rates []float64, at time.Duration) {
		if i := int(at / s.Bin); at >= 0 && i < bins {
			rates[i] += each
		}
	}
	for _, at := range seen.Attempts {
		count(s.Offered, at)
	}
	for _, call := range seen.Calls {
		if call.OK {
			count(s.Goodput, call.End)
		}
	}
	return s
}
