package main

import (
	"fmt"
	"slices"
	"time"
)

// scenario is one way to break the mesh.
type scenario struct {
	Name  string // on the command line
	title func(c config) string
	about func(c config) string

	// timeouts: attempts have limits of their own. Elsewhere they have none, so
	// that nothing but the strategy ends a call.
	timeouts bool
	// phases are what follows the warm-up.
	phases func(c config) []phase
}

// phase is a condition of the mesh from a moment on.
type phase struct {
	Start    time.Duration // from the start of the run
	Errors   float64       // share of the attempts that C answers UNAVAILABLE at once
	Capacity float64       // share of C's workers that work
	Sick     bool          // the first B cannot reach C
}

// healthy is how every run begins.
var healthy = phase{Capacity: 1}

var scenarios = []scenario{
	{
		Name:   "down",
		title:  func(config) string { return "C down" },
		about:  func(config) string { return "C answers every attempt UNAVAILABLE, at once" },
		phases: func(c config) []phase { return []phase{{Start: c.Warmup, Errors: 1, Capacity: 1}} },
	},
	{
		Name:  "failing",
		title: func(c config) string { return fmt.Sprintf("C %.4g %% failing", c.Failing) },
		about: func(c config) string {
			return fmt.Sprintf("C answers %.4g %% of the attempts UNAVAILABLE, at once, at random", c.Failing)
		},
		phases: func(c config) []phase { return []phase{{Start: c.Warmup, Errors: c.Failing / 100, Capacity: 1}} },
	},
	{
		Name:  "overloaded",
		title: func(config) string { return "C overloaded" },
		about: func(c config) string {
			t := c.timeouts()
			return fmt.Sprintf("C has %.4g %% of its workers for %v, then all of them again: what is still down after that is kept down by retries. "+
				"Attempts have limits of %v, %v and %v, from the driver's on, and C finishes also what its caller has given up", c.Capacity, overload(c), t[0], t[1], t[2])
		},
		timeouts: true,
		phases: func(c config) []phase {
			return []phase{{Start: c.Warmup, Capacity: c.Capacity / 100}, {Start: c.Warmup + overload(c), Capacity: 1}}
		},
	},
	{
		Name:  "sick",
		title: func(config) string { return "one sick B" },
		about: func(config) string {
			return fmt.Sprintf("one of the %d instances of B loses its connection to C and cannot connect again", instances)
		},
		phases: func(c config) []phase { return []phase{{Start: c.Warmup, Capacity: 1, Sick: true}} },
	},
}

// overload is how long an overloaded C lacks workers: a quarter of the fault.
func overload(c config) time.Duration { return c.Fault / 4 }

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.Name)
	}
	return names
}

func scenarioNamed(name string) (scenario, bool) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.Name == name })
	if i < 0 {
		return scenario{}, false
	}
	return scenarios[i], true
}
