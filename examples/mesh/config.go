package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// What the mesh is made of; the names of scenarios and the demands of -quick
// depend on it.
const (
	instances = 10 // of B
	attempts  = 3  // of a call on each edge
	edges     = 3  // driver to A, A to B, B to C
)

// config is everything a run depends on. Two runs with the same config offer
// the same calls at the same moments to the same services.
type config struct {
	Scenarios  []string // names from the table in scenario.go
	Strategies []string // names from the table in strategy.go

	Rate           float64       // user calls a second
	Deadline       time.Duration // time for a user call, and so for all that is done for it
	AttemptTimeout time.Duration // time for an attempt of B at C, where C is overloaded

	Workers     int           // attempts that C works on at once
	ServiceTime time.Duration // mean time a worker spends on one attempt
	Failing     float64       // per cent of the attempts that a failing C answers UNAVAILABLE
	Capacity    float64       // per cent of the workers left to an overloaded C

	Warmup time.Duration // health, before the fault
	Fault  time.Duration // what is measured

	Together int // scenarios played at the same time
	Seed     uint64
	Quick    bool
}

// fullConfig is the default run.
func fullConfig() config {
	return config{
		Scenarios:      scenarioNames(),
		Strategies:     strategyNames(),
		Rate:           100,
		Deadline:       10 * time.Second,
		AttemptTimeout: 250 * time.Millisecond,
		Workers:        8,
		ServiceTime:    50 * time.Millisecond,
		Failing:        30,
		Capacity:       50,
		// 200 calls fill a token bucket, and each B gets a tenth of the calls.
		Warmup:   21 * time.Second,
		Fault:    20 * time.Second,
		Together: 2,
		Seed:     1,
	}
}

// quickConfig plays what -quick judges, as short as that allows: more calls a
// second fill the buckets sooner.
func quickConfig() config {
	c := fullConfig()
	c.Quick = true
	c.Scenarios = []string{"down", "sick"}
	c.Strategies = []string{"naive", "tokens", "adaptive"}
	c.Rate = 150
	c.Workers = 12
	c.Warmup = 13500 * time.Millisecond
	c.Fault = 8 * time.Second
	return c
}

// capacity is how many attempts a second the healthy C can finish.
func (c config) capacity() float64 {
	return float64(c.Workers) / c.ServiceTime.Seconds()
}

// length is how long user calls are started for.
func (c config) length() time.Duration { return c.Warmup + c.Fault }

// timeouts are the attempt timeouts of the edges, from the driver's on, where C
// is overloaded: each has room for the attempts of the next and their waits.
func (c config) timeouts() [edges]time.Duration {
	return [edges]time.Duration{16 * c.AttemptTimeout, 4 * c.AttemptTimeout, c.AttemptTimeout}
}

const (
	maxCalls    = 200_000 // keeps a mistyped flag from using all memory
	maxLength   = time.Hour
	minDeadline = 8 * time.Second
	allAttempts = attempts * attempts * attempts // at C, for one user call
)

// validate names the first flag whose value makes no sense, and why.
func (c config) validate() error {
	for _, check := range []func() error{c.validateNumbers, c.validateDurations, c.validateLoad, c.validateNames, c.validateQuick} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c config) validateNumbers() error {
	switch {
	case math.IsNaN(c.Rate) || c.Rate <= 0 || c.Rate > 10_000:
		return fmt.Errorf("-rate %v: must be above 0 and at most 10000 calls/s", c.Rate)
	case c.Workers < 1 || c.Workers > 100_000:
		return fmt.Errorf("-workers %d: must be 1 to 100000", c.Workers)
	case math.IsNaN(c.Failing) || c.Failing < 0 || c.Failing > 100:
		return fmt.Errorf("-failing %v: must be 0 to 100 per cent", c.Failing)
	case math.IsNaN(c.Capacity) || c.Capacity < 0 || c.Capacity > 100:
		return fmt.Errorf("-capacity %v: must be 0 to 100 per cent", c.Capacity)
	case c.Together < 1:
		return fmt.Errorf("-together %d: must be at least 1", c.Together)
	}
	return nil
}

func (c config) validateDurations() error {
	switch {
	case c.ServiceTime < time.Millisecond:
		return fmt.Errorf("-service-time %v: must be at least 1ms", c.ServiceTime)
	case c.AttemptTimeout <= c.ServiceTime:
		return fmt.Errorf("-attempt-timeout %v: must be longer than -service-time %v, or healthy attempts time out", c.AttemptTimeout, c.ServiceTime)
	case c.Deadline < minDeadline:
		return fmt.Errorf("-deadline %v: must be at least %v, or it hides the multiplication", c.Deadline, minDeadline)
	case c.AttemptTimeout > c.Deadline/allAttempts:
		return fmt.Errorf("-attempt-timeout %v: %d of them must fit into -deadline %v, or it hides the multiplication", c.AttemptTimeout, allAttempts, c.Deadline)
	case c.Warmup < time.Second:
		return fmt.Errorf("-warmup %v: must be at least 1s", c.Warmup)
	case c.Fault < time.Second:
		return fmt.Errorf("-fault %v: must be at least 1s", c.Fault)
	case c.Warmup > maxLength || c.Fault > maxLength || c.length() > maxLength || c.Deadline > maxLength:
		return fmt.Errorf("-warmup %v, -fault %v, -deadline %v: the first two together and the last must be at most %v", c.Warmup, c.Fault, c.Deadline, maxLength)
	}
	return nil
}

func (c config) validateLoad() error {
	if c.Rate >= c.capacity() {
		return fmt.Errorf("-rate %v: must be below the healthy capacity of %.0f attempts/s (-workers %d, -service-time %v)",
			c.Rate, c.capacity(), c.Workers, c.ServiceTime)
	}
	if calls := c.Rate * c.length().Seconds(); calls > maxCalls {
		return fmt.Errorf("-rate %v: makes %.0f calls in %v, at most %d are allowed", c.Rate, calls, c.length(), maxCalls)
	}
	return nil
}

func (c config) validateNames() error {
	if err := terminal.CheckNames("-scenarios", c.Scenarios, scenarioNames()); err != nil {
		return err
	}
	return terminal.CheckNames("-strategies", c.Strategies, strategyNames())
}

func (c config) validateQuick() error {
	if !c.Quick {
		return nil
	}
	for _, name := range quickConfig().Scenarios {
		if !slices.Contains(c.Scenarios, name) {
			return fmt.Errorf("-scenarios: -quick judges %s, so it must be played", name)
		}
	}
	for _, name := range quickConfig().Strategies {
		if !slices.Contains(c.Strategies, name) {
			return fmt.Errorf("-strategies: -quick judges %s, so it must run", name)
		}
	}
	return nil
}
