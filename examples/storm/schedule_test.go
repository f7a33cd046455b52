package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSchedule_sameSeedSameCalls(t *testing.T) {
	t.Parallel()
	c := fullConfig()
	first := schedule(c)
	assert.Equal(t, first, schedule(c))
	c.Seed++
	assert.NotEqual(t, first, schedule(c))
}

func TestSchedule_hasRateAndClients(t *testing.T) {
	t.Parallel()
	c := fullConfig()
	calls := schedule(c)
	assert.InDelta(t, c.Rate*c.length().Seconds(), len(calls), 600, "22,000 calls, four standard deviations")
	assert.True(t, slices.IsSortedFunc(calls, func(a, b arrival) int { return int(a.At - b.At) }))
	perClient := make([]int, c.Clients)
	for _, call := range calls {
		perClient[call.Client]++ // panics if there is no such client
		assert.Less(t, call.At, c.length())
	}
	assert.InDelta(t, len(calls)/c.Clients, slices.Min(perClient), 150)
	assert.InDelta(t, len(calls)/c.Clients, slices.Max(perClient), 150)
}

func TestFate_sameForEveryStrategy(t *testing.T) {
	t.Parallel()
	first := fateOf(1, 7, 1)
	assert.Equal(t, first, fateOf(1, 7, 1))
	assert.NotEqual(t, first, fateOf(1, 7, 2), "attempts of a call differ")
	assert.NotEqual(t, first, fateOf(1, 8, 1), "calls differ")
	assert.NotEqual(t, first, fateOf(2, 7, 1), "seeds differ")
}

func TestFate_meanAndErrorShare(t *testing.T) {
	t.Parallel()
	const attempts = 100_000
	var work time.Duration
	failed := 0
	for call := range attempts {
		fate := fateOf(1, call, 1)
		took := fate.took(50 * time.Millisecond)
		assert.GreaterOrEqual(t, took, 25*time.Millisecond, "half of the time is fixed")
		work += took
		if fate.fails(0.01) {
			failed++
		}
	}
	assert.InDelta(t, 50, float64(work.Milliseconds())/attempts, 0.5)
	assert.InDelta(t, 1000, failed, 130, "1 %, four standard deviations")
	assert.False(t, fateOf(1, 1, 1).fails(0))
	assert.True(t, fateOf(1, 1, 1).fails(1))
}

func TestStory_overload(t *testing.T) {
	t.Parallel()
	st := overloadStory(fullConfig())
	for _, test := range []struct {
		at       time.Duration
		capacity float64
	}{
		{0, 1},
		{10*time.Second - 1, 1},
		{10 * time.Second, 0.6},
		{20*time.Second - 1, 0.6},
		{20 * time.Second, 1},
		{time.Hour, 1},
	} {
		assert.InDelta(t, test.capacity, st.at(test.at).Capacity, 1e-9, "at %v", test.at)
		assert.InDelta(t, 0.01, st.at(test.at).Errors, 1e-9, "at %v", test.at)
	}
	assert.Equal(t, fullConfig().length(), st.length())
}
