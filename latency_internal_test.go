package retrybudget

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// White-box, because which successes are measured must not show from outside.

func TestLatency_measuresTheFirstSixteenThenOneInSixteen(t *testing.T) {
	t.Parallel()
	var l latency
	for i := range 16 {
		for range 100 { // failed attempts do not use it up
			require.True(t, l.sample(), "success %d", i+1)
		}
		l.record(time.Millisecond, int64(i))
	}
	const n = 160_000
	measured, gap, longest, shortest := 0, 0, 0, n
	for range n {
		gap++
		if l.sample() {
			measured++
			longest, shortest, gap = max(longest, gap), min(shortest, gap), 0
		}
	}
	assert.InDelta(t, n/16, measured, n/16*0.05)
	assert.Equal(t, 1, shortest, "at random, not every sixteenth")
	assert.Greater(t, longest, 48)
}

func TestLatency_movingAverage(t *testing.T) {
	t.Parallel()
	var l latency
	assert.Zero(t, l.estimate(0), "not known")
	const second = int64(time.Second)
	for _, step := range []struct {
		took, want time.Duration
		at         int64
	}{
		{800, 800, 0},
		{1600, 900, second},
		{900, 900, 2 * second},
		{100, 800, 12 * second},       // believed for ten seconds
		{4000, 4000, 22*second + 1},   // but not longer: starts again
		{4000, 4000, 22*second + 1},   // in the same moment
		{0, 3500, 23 * second},        // a clock too coarse to see it
		{3500, 3500, 22*second + 500}, // overtaken by another goroutine
	} {
		l.record(step.took, step.at)
		assert.Equal(t, step.want, l.estimate(step.at))
		assert.Equal(t, step.want, l.estimate(step.at+10*second))
		assert.Zero(t, l.estimate(step.at+10*second+1), "too old")
	}
}

// Updates may get lost to each other, but the estimate stays among what was
// measured.
func TestLatency_concurrent(t *testing.T) {
	t.Parallel()
	var l latency
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 1000 {
				l.sample()
				l.record(time.Duration(1000+i), int64(i))
				if e := l.estimate(int64(i)); e != 0 && (e < 1000 || e > 2000) {
					t.Errorf("estimate %d", e)
				}
			}
		})
	}
	wg.Wait()
	l.record(1500, 1000)
	assert.InDelta(t, 1500, l.estimate(1000), 500)
}
