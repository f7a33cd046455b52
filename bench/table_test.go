package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	values := []float64{4, 1, 3, 2}

	assert.InDelta(t, 2.5, median(values), 1e-9)
	assert.InDelta(t, 1.75, quantile(values, 0.25), 1e-9)
	assert.InDelta(t, 4.0, quantile(values, 1), 1e-9)
	assert.InDelta(t, 3.0, median([]float64{3}), 1e-9)
	assert.True(t, math.IsNaN(median(nil)))
	assert.Equal(t, []float64{4, 1, 3, 2}, values, "the order of the rounds is kept")
}

// A slow machine in one round slows both, and the ratio stays.
func TestRatio_isPaired(t *testing.T) {
	t.Parallel()
	of := func(ns ...float64) []sample {
		var s []sample
		for _, v := range ns {
			s = append(s, sample{ns: v})
		}
		return s
	}

	assert.InDelta(t, 2.0, ratio(of(20, 200, 20), of(10, 100, 10)), 1e-9)
	assert.InDelta(t, 2.0, ratio(of(20, 200, 2000), of(10, 100, 1000)), 1e-9)
	assert.True(t, math.IsNaN(ratio(of(1), nil)))
}

func TestWriteTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder

	writeTable(&b, [][]string{{"name", "÷"}, {"a", "1.00"}, {"longer", "–"}}, 1)

	assert.Equal(t, strings.Join([]string{
		"| name   |    ÷ |",
		"|--------|-----:|",
		"| a      | 1.00 |",
		"| longer |    – |",
		"",
	}, "\n"), b.String())
}

func TestNanoseconds(t *testing.T) {
	t.Parallel()
	for ns, want := range map[float64]string{1.234: "1.23", 9.994: "9.99", 12.34: "12.3", 123.4: "123", 123456: "123456"} {
		assert.Equal(t, want, nanoseconds(ns))
	}
}
