package main

import (
	"fmt"
	"time"
)

// phase is a stretch of the story with one condition of the server.
type phase struct {
	Name     string
	Start    time.Duration // from the start of the run
	End      time.Duration
	Capacity float64 // share of the workers that work
	Errors   float64 // share of attempts answered UNAVAILABLE
}

// story is what happens to the server while the calls go on.
type story struct {
	Phases     []phase
	FaultStart time.Duration
	FaultEnd   time.Duration
}

// overloadStory is health, a part of the capacity lost, health again.
func overloadStory(c config) story {
	share := c.Errors / 100
	start, end := c.Health, c.Health+c.Fault
	return story{
		Phases: []phase{
			{Name: "healthy", End: start, Capacity: 1, Errors: share},
			{Name: fmt.Sprintf("fault: %.4g %% capacity", c.FaultCapacity), Start: start, End: end, Capacity: c.FaultCapacity / 100, Errors: share},
			{Name: "capacity is back", Start: end, End: c.length(), Capacity: 1, Errors: share},
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
