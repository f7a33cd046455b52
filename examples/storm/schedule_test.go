package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSchedule_sameSeedSameCalls(t *testing.T) {
	t.Parallel()
	c := testDefaults("overload", false)
	first := schedule(c)
	assert.Equal(t, first, schedule(c))
	c.Seed++
	assert.NotEqual(t, first, schedule(c))
}

func TestSchedule_hasRateAndClients(t *testing.T) {
	t.Parallel()
	c := testDefaults("overload", false)
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
