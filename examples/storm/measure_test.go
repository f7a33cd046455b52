package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

// shortStory has a fault from second 2 to second 4 and ends at second 10.
func shortStory() (config, story) {
	c := testDefaults("overload", false)
	c.Rate, c.Health, c.Fault, c.Tail, c.Windows = 10, 2*time.Second, 2*time.Second, 6*time.Second, 3
	return c, storyOf(c)
}

// steady makes ten calls a second from the start to to, of which those started in
// [badFrom, badTo) fail.
func steady(to, badFrom, badTo time.Duration) []callSeen {
	var calls []callSeen
	for at := time.Duration(0); at < to; at += 100 * time.Millisecond {
		calls = append(calls, callSeen{Start: at, End: at + 50*time.Millisecond, OK: at < badFrom || at >= badTo, Attempts: 1})
	}
	return calls
}

func TestMeasure_counts(t *testing.T) {
	t.Parallel()
	c, st := shortStory()
	seen := observation{
		Calls: []callSeen{
			{Start: 0, OK: true, Attempts: 1},
			{Start: 1e9, OK: true, Attempts: 2},    // masked
			{Start: 2e9, OK: false, Attempts: 3},   // the fault begins at this very moment
			{Start: 3e9, OK: true, Attempts: 3},    // masked, in the fault
			{Start: 3.5e9, OK: false, Attempts: 1}, // not retried
			{Start: 4e9, OK: true, Attempts: 1},    // the fault has just ended
			{Start: 5e9, OK: false, Attempts: 0},   // gave up before the server saw it
			{Start: 5_000_000_001, OK: true, Attempts: 1},
		},
		Attempts: []time.Duration{0, 1e9, 1.3e9, 1.9e9, 2e9, 2.1e9, 2.2e9, 3e9},
	}
	m := measure(c, strategies[0], st, seen, st.length())
	assert.Equal(t, 8, m.Calls)
	assert.Equal(t, 12, m.Attempts)
	assert.InDelta(t, 1.5, m.Amplification, 1e-9)
	assert.InDelta(t, 4.0/3, m.Load, 1e-9, "four attempts arrived in the fault, three calls started in it")
	assert.InDelta(t, 0.5, m.WorstSecond, 1e-9, "five attempts from 1.3 s to 2.2 s, ten calls a second")
	assert.Equal(t, tally.Share{Part: 1, Whole: 3}, m.InFault)
	assert.Equal(t, tally.Share{Part: 2, Whole: 5}, m.Masked)
	assert.Equal(t, tally.Share{Part: 1, Whole: 1}, m.MaskedBefore)
}

func TestMeasure_nothingHappened(t *testing.T) {
	t.Parallel()
	c, st := shortStory()
	m := measure(c, strategies[0], st, observation{}, 0)
	assert.Equal(t, []string{"no retries", "0", "0", tally.Nothing, tally.Nothing, tally.Nothing, tally.Nothing, tally.Nothing, tally.Nothing}, c.cells(m))
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	c, st := shortStory()
	end := st.length()
	for name, test := range map[string]struct {
		calls []callSeen
		until time.Duration
		want  recovery
	}{
		"at once":                     {steady(end, 2e9, 4e9), end, recovery{State: recovered}},
		"after 1.5 s":                 {steady(end, 2e9, 5.5e9), end, recovery{State: recovered, After: 1500 * time.Millisecond}},
		"just in time":                {steady(end, 2e9, 7e9), end, recovery{State: recovered, After: 3 * time.Second}},
		"too late to be sure":         {steady(end, 2e9, 7.1e9), end, recovery{State: never}},
		"never":                       {steady(end, 2e9, end), end, recovery{State: never}},
		"good, then bad again":        {steady(end, 6e9, 7e9), end, recovery{State: recovered, After: 3 * time.Second}},
		"calls stopped":               {steady(4e9, 2e9, 4e9), end, recovery{State: never}},
		"cut off after the recovery":  {steady(8e9, 2e9, 4.5e9), 8e9, recovery{State: recovered, After: 500 * time.Millisecond}},
		"cut off before it was known": {steady(6e9, 2e9, 4e9), 6e9, recovery{State: unmeasured}},
	} {
		assert.Equal(t, test.want, recoveryOf(test.calls, st, c.Windows, test.until), name)
	}
}

// One failure in ten is too many, one in twenty is not.
func TestRecovery_needs95PerCent(t *testing.T) {
	t.Parallel()
	c, st := shortStory()
	every := func(n int) []callSeen {
		var calls []callSeen
		for i := range 200 {
			calls = append(calls, callSeen{Start: time.Duration(i) * 50 * time.Millisecond, OK: i%n != 0, Attempts: 1})
		}
		return calls
	}
	assert.Equal(t, never, recoveryOf(every(10), st, c.Windows, st.length()).State)
	assert.Equal(t, recovered, recoveryOf(every(20), st, c.Windows, st.length()).State)
}

func TestSeries_bins(t *testing.T) {
	t.Parallel()
	seen := observation{
		Attempts: []time.Duration{0, 0.1e9, 0.5e9, 1.2e9, 1.6e9, 5e9},
		Calls: []callSeen{
			{Start: 0, End: 0.6e9, OK: true},
			{Start: 0.1e9, End: 0.7e9, OK: false},
			{Start: 1.2e9, End: 1.9e9, OK: true}, // in the bin that was cut off
		},
	}
	s := seriesOf(seen, 1750*time.Millisecond)
	assert.Equal(t, 500*time.Millisecond, s.Bin)
	assert.Equal(t, []float64{4, 2, 2}, s.Offered, "per second, not per bin")
	assert.Equal(t, []float64{0, 2, 0}, s.Goodput, "by the moment a call ended")

	assert.Equal(t, time.Second, seriesOf(seen, time.Minute).Bin)
	assert.Empty(t, seriesOf(seen, 0).Offered)
}

func TestMachine_saysWhenItWasInTheWay(t *testing.T) {
	t.Parallel()
	calm := machine.Load{CPUs: 2, Busy: 0.4, Measured: true, Late: time.Millisecond, MaxLate: 50 * time.Millisecond}
	assert.Contains(t, machineText(calm), "used 40 % of 2 CPUs; 99 % of the calls started within 1.0 ms")
	assert.NotContains(t, machineText(calm), "do not trust")
	late := calm
	late.Late = time.Second
	assert.Contains(t, machineText(late), "do not trust")
	unknown := calm
	unknown.Measured = false
	assert.Contains(t, machineText(unknown), "not known")
}
