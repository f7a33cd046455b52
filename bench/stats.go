package main

import (
	"math"
	"slices"
)

// quantile returns the value below which the share q of the values lies, between
// two values if need be; NaN of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// spread is the distance of the quartiles as a share of the median: half of the
// values lie in it.
func spread(values []float64) float64 {
	return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)
}

// each picks one figure of every sample.
func each(samples []sample, pick func(sample) float64) []float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, pick(s))
	}
	return values
}

func nsOf(s sample) float64     { return s.ns }
func bytesOf(s sample) float64  { return s.bytes }
func allocsOf(s sample) float64 { return s.allocs }

// ratio is the median, over the rounds, of a's time divided by b's in the same
// round: a round that the machine disturbed disturbed both.
func ratio(a, b []sample) float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, a[i].ns/b[i].ns)
	}
	return median(ratios)
}
