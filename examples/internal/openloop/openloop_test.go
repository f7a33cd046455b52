package openloop_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/openloop"
)

func TestArrivals_sameSeedSameMoments(t *testing.T) {
	t.Parallel()
	arrivals := func(seed uint64) []time.Duration {
		return slices.Collect(openloop.Arrivals(openloop.Random(seed), 100, 100*time.Second))
	}
	first := arrivals(1)
	assert.Equal(t, first, arrivals(1))
	assert.NotEqual(t, first, arrivals(2))
	assert.InDelta(t, 10_000, len(first), 400, "four standard deviations")
	assert.True(t, slices.IsSorted(first))
	assert.Less(t, first[len(first)-1], 100*time.Second)
}

func TestWaitUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		assert.True(t, openloop.WaitUntil(ctx, start.Add(-time.Second)), "past")
		assert.Equal(t, start, time.Now())
		assert.True(t, openloop.WaitUntil(ctx, start.Add(time.Second)))
		assert.Equal(t, start.Add(time.Second), time.Now())
		assert.False(t, openloop.WaitUntil(ctx, start.Add(3*time.Second)), "cut off")
		assert.Equal(t, start.Add(2*time.Second), time.Now())
		assert.False(t, openloop.WaitUntil(ctx, start), "ended before")
	})
}
