package tally_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

func TestShare(t *testing.T) {
	t.Parallel()
	var s tally.Share
	_, ok := s.Percent()
	assert.False(t, ok)
	assert.Equal(t, tally.Nothing, s.Text())
	for _, good := range []bool{true, false, false} {
		s.Add(good)
	}
	assert.Equal(t, tally.Share{Part: 1, Whole: 3}, s)
	percent, ok := s.Percent()
	assert.True(t, ok)
	assert.InDelta(t, 33.333, percent, 0.001)
	assert.Equal(t, "33.3 %", s.Text())
}

func TestMostIn_slidingWindow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		moments []time.Duration
		want    int
	}{
		{nil, 0},
		{[]time.Duration{5e9}, 1},
		{[]time.Duration{0, 1e9}, 1}, // a second apart is not within one second
		{[]time.Duration{0, 999_999_999}, 2},
		{[]time.Duration{0, 0.6e9, 1.1e9, 1.2e9, 5e9}, 3},
		{[]time.Duration{0, 0.5e9, 0.9e9, 1.4e9, 1.45e9, 1.49e9, 9e9}, 5}, // across a full second
	} {
		assert.Equal(t, test.want, tally.MostIn(time.Second, test.moments), "%v", test.moments)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	values := make([]time.Duration, 0, 101)
	for i := range 101 {
		values = append(values, time.Duration(100-i))
	}
	assert.Equal(t, time.Duration(99), tally.Percentile(values, 99))
	assert.Equal(t, time.Duration(98), tally.Percentile(values[1:], 99), "rounded down")
	assert.Zero(t, tally.Percentile(values, 0))
	assert.Zero(t, tally.Percentile(nil, 99))
}
