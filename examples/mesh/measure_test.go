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
	calls := schedule(c)
	assert.Equal(t, calls, schedule(c))
	assert.InDelta(t, c.Rate*c.length().Seconds(), len(calls), 256, "4,100 calls, four standard deviations")
	assert.True(t, slices.IsSorted(calls))
	assert.Less(t, calls[len(calls)-1], c.length())
	c.Seed++
	assert.NotEqual(t, calls, schedule(c))
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
	const draws = 100_000
	var work time.Duration
	failed := 0
	for call := range draws {
		fate := fateOf(1, call, 1)
		took := fate.took(50 * time.Millisecond)
		assert.GreaterOrEqual(t, took, 25*time.Millisecond, "half of the time is fixed")
		work += took
		if fate.fails(0.3) {
			failed++
		}
	}
	assert.InDelta(t, 50, float64(work.Milliseconds())/draws, 0.5)
	assert.InDelta(t, 30_000, failed, 580, "30 %, four standard deviations")
	assert.False(t, fateOf(1, 1, 1).fails(0))
	assert.True(t, fateOf(1, 1, 1).fails(1))
}

func TestMostIn(t *testing.T) {
	t.Parallel()
	ms := func(all ...int) (moments []time.Duration) {
		for _, at := range all {
			moments = append(moments, time.Duration(at)*time.Millisecond)
		}
		return moments
	}
	for _, test := range []struct {
		moments []time.Duration
		want    int
	}{
		{nil, 0},
		{ms(0), 1},
		{ms(0, 999), 2},
		{ms(0, 1000), 1},
		{ms(0, 600, 1100, 1200, 5000), 3},
	} {
		assert.Equal(t, test.want, mostIn(time.Second, test.moments), "%v", test.moments)
	}
}

// Only what happens from the beginning of the fault on is in a row.
func TestMeasure_countsTheFault(t *testing.T) {
	t.Parallel()
	c := fullConfig()
	c.Rate, c.Warmup, c.Fault = 2, 10*time.Second, 10*time.Second
	start := time.Now()
	at := func(seconds ...float64) (moments []time.Time) {
		for _, s := range seconds {
			moments = append(moments, start.Add(time.Duration(s*float64(time.Second))))
		}
		return moments
	}
	m := &mesh{}
	m.a.arrivals = at(9, 10, 12, 14)
	m.b[0].arrivals = at(9, 12)
	m.b[9].arrivals = at(9.5, 10, 14, 15)
	m.c.arrivals = at(8, 9, 10, 12, 12.1, 12.9, 14, 15)
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
	assert.Equal(t, share{1, 2}, got.OK)
	assert.Equal(t, []int{3, 4, 6}, []int{got.A, got.B, got.C})
	multiplier, ok := got.multiplier()
	assert.True(t, ok)
	assert.InDelta(t, 2, multiplier, 1e-9)
	assert.InDelta(t, 1.5, got.WorstSecond, 1e-9, "three attempts within a second, two calls a second")
	assert.True(t, got.HasFunds)
	assert.Equal(t, [edges]float64{1, 2, 3}, got.Funds)
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	assert.Zero(t, percentile(nil, 99))
	var values []time.Duration
	for i := range 101 {
		values = append(values, time.Duration(100-i))
	}
	assert.Equal(t, time.Duration(99), percentile(values, 99))
}
