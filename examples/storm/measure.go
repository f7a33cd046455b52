package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

// observation is all that was counted of one strategy, with moments counted
// from the start of the run.
type observation struct {
	Calls    []callSeen      // calls that ended, in the order in which they started
	Attempts []time.Duration // arrival of each attempt at the server, in order
}

// callSeen is one call as its caller saw it, and its attempts as the server did.
type callSeen struct {
	Start, End time.Duration
	OK         bool
	Attempts   int
}

// measured is a row of the table.
type measured struct {
	Strategy strategy

	Calls         int
	Attempts      int
	Amplification float64     // attempts over calls
	WorstSecond   float64     // most attempts in any second, over the calls offered in one
	Load          float64     // attempts that arrived in the fault, over the calls started in it
	InFault       tally.Share // calls started in the fault that ended OK
	Recovery      recovery
	Masked        tally.Share // calls whose first attempt failed that ended OK
	MaskedBefore  tally.Share // the same, of the calls started before the fault

	Series series
}

// recovery is how long after the fault calls were well again.
type recovery struct {
	State recoveryState
	After time.Duration // with recovered
}

type recoveryState int

const (
	unmeasured recoveryState = iota // the run was cut off before it could be told
	recovered
	never // not before the end of the run
)

// measure counts what the table shows. Calls and attempts after the moment
// until do not exist: there the run was cut off.
func measure(c config, s strategy, st story, seen observation, until time.Duration) measured {
	m := measured{Strategy: s, Calls: len(seen.Calls)}
	for _, call := range seen.Calls {
		m.Attempts += call.Attempts
		if call.Start >= st.FaultStart && call.Start < st.FaultEnd {
			m.InFault.Add(call.OK)
		}
		// A call with an OK first attempt ends there, so any other call's first
		// attempt failed.
		if !call.OK || call.Attempts > 1 {
			m.Masked.Add(call.OK)
			if call.Start < st.FaultStart {
				m.MaskedBefore.Add(call.OK)
			}
		}
	}
	if m.Calls > 0 {
		m.Amplification = float64(m.Attempts) / float64(m.Calls)
	}
	if m.InFault.Whole > 0 {
		m.Load = float64(countIn(seen.Attempts, st.FaultStart, st.FaultEnd)) / float64(m.InFault.Whole)
	}
	m.WorstSecond = float64(tally.MostIn(time.Second, seen.Attempts)) / c.Rate
	m.Recovery = recoveryOf(seen.Calls, st, c.Windows, until)
	m.Series = seriesOf(seen, until)
	return m
}

// countIn is how many of the moments, which are in order, are in [from, to).
func countIn(moments []time.Duration, from, to time.Duration) int {
	first, _ := slices.BinarySearch(moments, from)
	end, _ := slices.BinarySearch(moments, to)
	return end - first
}

const (
	goodShare    = 0.95                   // of the calls started in a window must end OK
	goodWindow   = time.Second            // length of a window
	recoveryStep = 100 * time.Millisecond // moments tried as the first good one
)

// recoveryOf finds the first moment after the fault from which a number of
// windows in a row are good.
func recoveryOf(calls []callSeen, st story, windows int, until time.Duration) recovery {
	need := time.Duration(windows) * goodWindow
	for at := st.FaultEnd; at+need <= until; at += recoveryStep {
		if allGood(calls, at, windows) {
			return recovery{State: recovered, After: at - st.FaultEnd}
		}
	}
	if until < st.length() {
		return recovery{State: unmeasured}
	}
	return recovery{State: never}
}

func allGood(calls []callSeen, from time.Duration, windows int) bool {
	for w := range windows {
		start := from + time.Duration(w)*goodWindow
		first, _ := slices.BinarySearchFunc(calls, start, func(c callSeen, t time.Duration) int { return cmp.Compare(c.Start, t) })
		var good tally.Share
		for _, call := range calls[first:] {
			if call.Start >= start+goodWindow {
				break
			}
			good.Add(call.OK)
		}
		if good.Whole == 0 || float64(good.Part) < goodShare*float64(good.Whole) {
			return false
		}
	}
	return true
}
