package main

import (
	"cmp"
	"slices"
	"time"
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
	Amplification float64 // attempts over calls
	WorstSecond   float64 // most attempts in any second, over the calls offered in one
	InFault       share   // calls started in the fault that ended OK
	Recovery      recovery
	Masked        share // calls whose first attempt failed that ended OK
	MaskedBefore  share // the same, of the calls started before the fault

	Series series
}

// share is Part of Whole; without a whole there is nothing to say.
type share struct{ Part, Whole int }

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
			m.InFault.add(call.OK)
		}
		// A call with an OK first attempt ends there, so any other call's first
		// attempt failed.
		if !call.OK || call.Attempts > 1 {
			m.Masked.add(call.OK)
			if call.Start < st.FaultStart {
				m.MaskedBefore.add(call.OK)
			}
		}
	}
	if m.Calls > 0 {
		m.Amplification = float64(m.Attempts) / float64(m.Calls)
	}
	m.WorstSecond = float64(mostIn(time.Second, seen.Attempts)) / c.Rate
	m.Recovery = recoveryOf(seen.Calls, st, c.Windows, until)
	m.Series = seriesOf(seen, until)
	return m
}

func (s *share) add(ok bool) {
	s.Whole++
	if ok {
		s.Part++
	}
}

// percent is meaningless without a whole, which the second value tells.
func (s share) percent() (float64, bool) {
	if s.Whole == 0 {
		return 0, false
	}
	return 100 * float64(s.Part) / float64(s.Whole), true
}

// mostIn is the largest number of moments in any window of a length. The
// moments are in order.
func mostIn(window time.Duration, moments []time.Duration) int {
	most, first := 0, 0
	for i, at := range moments {
		for moments[first] <= at-window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
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
		var good share
		for _, call := range calls[first:] {
			if call.Start >= start+goodWindow {
				break
			}
			good.add(call.OK)
		}
		if good.Whole == 0 || float64(good.Part) < goodShare*float64(good.Whole) {
			return false
		}
	}
	return true
}
