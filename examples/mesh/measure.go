package main

import "time"

// measured is a row of the table. Everything in it is from the beginning of the
// fault on.
type measured struct {
	Scenario scenario
	Strategy strategy

	Calls       int   // user calls that were started
	A, B, C     int   // attempts that arrived there; of B over all instances
	OK          share // of them that ended, those that ended OK
	Funds       [edges]float64
	HasFunds    bool
	WorstSecond float64 // most attempts at C in any second, over the user calls offered in one
}

// share is Part of Whole; without a whole there is nothing to say.
type share struct{ Part, Whole int }

// measure counts what the table shows of a scene that is over.
//
// Attempts are counted by the moment at which they arrive. So those that calls
// from before the fault still make in it count too, and no multiplier comes out
// smaller than it was.
func measure(c config, s *scene, calls []time.Duration, fault time.Time) measured {
	m := measured{Scenario: s.scenario, Strategy: s.strategy, Funds: s.funds, HasFunds: s.funded}
	for i, o := range s.outcomes {
		if !o.started || calls[i] < c.Warmup {
			continue
		}
		m.Calls++
		if o.done {
			m.OK.add(o.ok)
		}
	}
	m.A = len(s.mesh.a.since(fault))
	for i := range s.mesh.b {
		m.B += len(s.mesh.b[i].since(fault))
	}
	atC := s.mesh.c.since(fault)
	m.C = len(atC)
	m.WorstSecond = float64(mostIn(time.Second, atC)) / c.Rate
	return m
}

// multiplier is what one user call becomes at C. It is meaningless without user
// calls, which the second value tells.
func (m measured) multiplier() (float64, bool) {
	if m.Calls == 0 {
		return 0, false
	}
	return float64(m.C) / float64(m.Calls), true
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
