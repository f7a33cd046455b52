package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/loopback"
	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

func TestSchedule_sameSeedSameCalls(t *testing.T) {
	t.Parallel()
	c := fullConfig()
	calls := schedule(c)
	assert.Equal(t, calls, schedule(c))
	assert.InDelta(t, c.Rate*c.length().Seconds(), len(calls), 256, "4,100 calls, four standard deviations")
	assert.True(t, slices.IsSorted(calls))
	assert.Less(t, calls[len(calls)-1], c.length())
	c.Seed++
	assert.NotEqual(t, calls, schedule(c))
}

// Only what happens from the beginning of the fault on is in a row.
func TestMeasure_countsTheFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fullConfig()
		c.Rate, c.Warmup, c.Fault = 2, 10*time.Second, 10*time.Second
		start := time.Now()
		m := &mesh{}
		// note is what happens at a moment: who is arrived at.
		note := func(seconds float64, arrived ...*loopback.Counter) {
			<-time.After(time.Until(start.Add(time.Duration(seconds * float64(time.Second)))))
			for _, n := range arrived {
				n.Note()
			}
		}
		note(8, &m.c)
		note(9, &m.a, &m.b[0], &m.c)
		note(9.5, &m.b[9])
		note(10, &m.a, &m.b[9], &m.c)
		note(12, &m.a, &m.b[0], &m.c)
		note(12.1, &m.c)
		note(12.9, &m.c)
		note(14, &m.a, &m.b[9], &m.c)
		note(15, &m.b[9], &m.c)
		s := &scene{
			mesh: m,
			outcomes: []outcome{
				{started: true, done: true, ok: true}, // before the fault
				{started: true, done: true, ok: true},
				{started: true, done: true},
				{started: true}, // cut off
				{},              // never started
			},
			funds: [edges]float64{1, 2, 3}, funded: true,
		}
		calls := []time.Duration{9 * time.Second, 10 * time.Second, 12 * time.Second, 13 * time.Second, 14 * time.Second}
		got := measure(c, s, calls, start.Add(c.Warmup))

		assert.Equal(t, 3, got.Calls)
		assert.Equal(t, tally.Share{Part: 1, Whole: 2}, got.OK)
		assert.Equal(t, []int{3, 4, 6}, []int{got.A, got.B, got.C})
		multiplier, ok := got.multiplier()
		assert.True(t, ok)
		assert.InDelta(t, 2, multiplier, 1e-9)
		assert.InDelta(t, 1.5, got.WorstSecond, 1e-9, "three attempts within a second, two calls a second")
		assert.True(t, got.HasFunds)
		assert.Equal(t, [edges]float64{1, 2, 3}, got.Funds)
	})
}
