package backend_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
)

func TestFate_sameForEveryStrategy(t *testing.T) {
	t.Parallel()
	first := backend.FateOf(1, 7, 1)
	assert.Equal(t, first, backend.FateOf(1, 7, 1))
	assert.NotEqual(t, first, backend.FateOf(1, 7, 2), "attempts of a call differ")
	assert.NotEqual(t, first, backend.FateOf(1, 8, 1), "calls differ")
	assert.NotEqual(t, first, backend.FateOf(2, 7, 1), "seeds differ")
}

func TestFate_meanAndErrorShare(t *testing.T) {
	t.Parallel()
	const attempts = 100_000
	var work, shortest time.Duration = 0, time.Hour
	few, many := 0, 0
	for call := range attempts {
		fate := backend.FateOf(1, call, 1)
		took := fate.Took(50 * time.Millisecond)
		work += took
		shortest = min(shortest, took)
		if fate.Fails(0.01) {
			few++
		}
		if fate.Fails(0.3) {
			many++
		}
	}
	assert.GreaterOrEqual(t, shortest, 25*time.Millisecond, "half of the time is fixed")
	assert.InDelta(t, 50, float64(work.Milliseconds())/attempts, 0.5)
	assert.InDelta(t, 1000, few, 130, "1 %, four standard deviations")
	assert.InDelta(t, 30_000, many, 580, "30 %, four standard deviations")
	assert.False(t, backend.FateOf(1, 1, 1).Fails(0))
	assert.True(t, backend.FateOf(1, 1, 1).Fails(1))
}
