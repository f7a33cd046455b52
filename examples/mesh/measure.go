package main

import (
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

// measured is a row of the table. Everything in it is from the beginning of the
// fault on.
type measured struct {
	Scenario scenario
	Strategy strategy

	Calls       int         // user calls that were started
	A, B, C     int         // attempts that arrived there; of B over all instances
	OK          tally.Share // of them that ended, those that ended OK
	Funds       [edges]float64
	HasFunds    bool
	WorstSecond float64 // most attempts at C in any second, over the user calls offered in one
}

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
			m.OK.Add(o.ok)
		}
	}
	m.A = len(s.mesh.a.Since(fault))
	for i := range s.mesh.b {
		m.B += len(s.mesh.b[i].Since(fault))
	}
	atC := s.mesh.c.Since(fault)
	m.C = len(atC)
	m.WorstSecond = float64(tally.MostIn(time.Second, atC)) / c.Rate
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
