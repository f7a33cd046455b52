package main

import (
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
)

// phase is a stretch of the story with one condition of the server.
type phase struct {
	Name      string
	Start     time.Duration // from the start of the run
	End       time.Duration
	Condition backend.Condition
}

// story is what happens to the server while the calls go on.
type story struct {
	Phases     []phase
	FaultStart time.Duration
	FaultEnd   time.Duration
}

// storyOf is health, the fault of the scenario, health again. Random errors go on
// all the time, in the fault among the attempts that it leaves alone.
func storyOf(c config) story {
	s := c.scenario()
	random := c.Errors / 100
	healthy, fault := backend.Condition{Workers: 1, Slow: 1, Errors: random}, s.fault(c)
	fault.Errors = 1 - (1-fault.Errors)*(1-random)
	start, end := c.Health, c.Health+c.Fault
	return story{
		Phases: []phase{
			{Name: "healthy", End: start, Condition: healthy},
			{Name: "fault: " + s.label(c), Start: start, End: end, Condition: fault},
			{Name: s.After, Start: end, End: c.length(), Condition: healthy},
		},
		FaultStart: start,
		FaultEnd:   end,
	}
}

// at returns the phase of a moment; the last one lasts for ever.
func (s story) at(t time.Duration) phase {
	for _, p := range s.Phases {
		if t < p.End {
			return p
		}
	}
	return s.Phases[len(s.Phases)-1]
}

// length is when the last phase ends.
func (s story) length() time.Duration {
	return s.Phases[len(s.Phases)-1].End
}
