package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// config is everything a run depends on. Two runs with the same config offer
// the same calls at the same moments to the same server.
type config struct {
	Scenario   string   // a name from the table in scenario.go
	Strategies []string // names from the table in strategy.go

	Rate           float64       // calls a second, over all clients
	Clients        int           // client processes; each has its own connection and its own retry state
	AttemptTimeout time.Duration // time for one attempt, where a strategy has such a limit
	Deadline       time.Duration // time for the whole call

	Workers       int           // attempts the healthy server works on at once
	ServiceTime   time.Duration // mean time a worker spends on one attempt
	FaultCapacity float64       // per cent of the workers left in the fault of the overload
	Slow          float64       // what the service time is multiplied by in the slow-down
	Down          int           // of ten backends, those that are down in the partial outage
	Errors        float64       // per cent of attempts answered UNAVAILABLE at random, all the time

	Health time.Duration // before the fault
	Fault  time.Duration
	Tail   time.Duration // after the fault

	Seed  uint64
	Out   string // path of the HTML report; empty for none
	Serve string // address of the live page and of the metrics; empty for none
	Quick bool

	// Windows is how many good seconds in a row count as recovered.
	Windows int
}

// defaults are the config without any flags but these two.
func defaults(s scenario, quick bool) config {
	c := overloadConfig()
	if quick {
		c = shortened(c)
	}
	c.Scenario = s.Name
	s.adapt(&c)
	return c
}

// overloadConfig is the default story: long enough to see that a trapped server
// does not come back by itself.
func overloadConfig() config {
	return config{
		Strategies:     strategyNames(),
		Rate:           400,
		Clients:        20,
		AttemptTimeout: 200 * time.Millisecond,
		Deadline:       time.Second,
		Workers:        25,
		ServiceTime:    50 * time.Millisecond,
		FaultCapacity:  60,
		Slow:           6,
		Down:           3,
		Errors:         1,
		Health:         10 * time.Second,
		Fault:          10 * time.Second,
		Tail:           35 * time.Second,
		Seed:           1,
		Out:            "storm.html",
		Windows:        5,
	}
}

// shortened is the same story, short and small enough for every CI run: the same
// load on each worker, but fewer of them. Attempts take twice as long and have
// twice the time, so that a machine which is busy with something else, and starts
// calls late, is less in the way.
func shortened(c config) config {
	c.Quick = true
	c.Rate = 120
	c.Clients = 12
	c.Workers = 15
	c.ServiceTime *= 2
	c.AttemptTimeout *= 2
	c.Deadline *= 2
	c.Health = 3 * time.Second
	c.Fault = 2500 * time.Millisecond
	c.Tail = 10 * time.Second
	c.Windows = 3
	return c
}

// capacity is how many attempts a second the healthy server can finish.
func (c config) capacity() float64 {
	return float64(c.Workers) / c.ServiceTime.Seconds()
}

// length is how long calls are started for.
func (c config) length() time.Duration {
	return c.Health + c.Fault + c.Tail
}

const (
	maxCalls  = 1_000_000 // keeps a mistyped flag from using all memory
	maxLength = time.Hour
)

// validate names the first flag whose value makes no sense, and why.
func (c config) validate() error {
	for _, check := range []func() error{c.validateNumbers, c.validateDurations, c.validateLoad, c.validateStrategies, c.validateOut, c.validateServe} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c config) validateNumbers() error {
	switch {
	case math.IsNaN(c.Rate) || c.Rate <= 0 || c.Rate > 100_000:
		return fmt.Errorf("-rate %v: must be above 0 and at most 100000 calls/s", c.Rate)
	case c.Clients < 1 || c.Clients > 1000:
		return fmt.Errorf("-clients %d: must be 1 to 1000", c.Clients)
	case c.Workers < 1 || c.Workers > 100_000:
		return fmt.Errorf("-workers %d: must be 1 to 100000", c.Workers)
	case math.IsNaN(c.FaultCapacity) || c.FaultCapacity < 0 || c.FaultCapacity > 100:
		return fmt.Errorf("-fault-capacity %v: must be 0 to 100 per cent", c.FaultCapacity)
	case math.IsNaN(c.Slow) || c.Slow < 1 || c.Slow > 1000:
		return fmt.Errorf("-slow %v: must be 1 to 1000 times the service time", c.Slow)
	case c.Down < 0 || c.Down > backends:
		return fmt.Errorf("-down %d: must be 0 to %d of the %d backends", c.Down, backends, backends)
	case math.IsNaN(c.Errors) || c.Errors < 0 || c.Errors >= 100:
		return fmt.Errorf("-errors %v: must be 0 to less than 100 per cent", c.Errors)
	}
	return nil
}

func (c config) validateDurations() error {
	need := time.Duration(c.Windows) * time.Second
	switch {
	case c.ServiceTime < time.Millisecond:
		return fmt.Errorf("-service-time %v: must be at least 1ms", c.ServiceTime)
	case c.AttemptTimeout <= c.ServiceTime:
		return fmt.Errorf("-attempt-timeout %v: must be longer than -service-time %v, or healthy attempts time out", c.AttemptTimeout, c.ServiceTime)
	case c.Deadline < c.AttemptTimeout:
		return fmt.Errorf("-deadline %v: must be at least -attempt-timeout %v", c.Deadline, c.AttemptTimeout)
	case c.Health < time.Second:
		return fmt.Errorf("-health %v: must be at least 1s", c.Health)
	case c.Fault < time.Second:
		return fmt.Errorf("-fault %v: must be at least 1s", c.Fault)
	case c.Tail < need:
		return fmt.Errorf("-tail %v: must be at least %v, because %d good seconds in a row count as recovered", c.Tail, need, c.Windows)
	case c.Health > maxLength || c.Fault > maxLength || c.Tail > maxLength || c.length() > maxLength:
		return fmt.Errorf("-health %v, -fault %v, -tail %v: together they must be at most %v", c.Health, c.Fault, c.Tail, maxLength)
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

func (c config) validateStrategies() error {
	if err := terminal.CheckNames("-strategies", c.Strategies, strategyNames()); err != nil {
		return err
	}
	if c.Quick && c.Scenario == judged && (!slices.Contains(c.Strategies, "naive") || !slices.Contains(c.Strategies, "retrybudget")) {
		return errors.New("-strategies: -quick judges naive and retrybudget, so both must run")
	}
	return nil
}

// validateOut finds an unusable report path before the run, not after it.
func (c config) validateOut() error {
	if c.Out == "" {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(c.Out))
	if err != nil {
		return fmt.Errorf("-out %q: %w", c.Out, err)
	}
	if !dir.IsDir() {
		return fmt.Errorf("-out %q: %s is not a directory", c.Out, filepath.Dir(c.Out))
	}
	if info, err := os.Stat(c.Out); err == nil && info.IsDir() {
		return fmt.Errorf("-out %q: is a directory", c.Out)
	}
	return nil
}

// validateServe finds what is no address; whether it is free shows when it is used.
func (c config) validateServe() error {
	if c.Serve == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Serve); err != nil {
		return fmt.Errorf("-serve %q: must be host:port or :port: %w", c.Serve, err)
	}
	return nil
}
