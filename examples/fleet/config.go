package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/openloop"
)

// config is everything a run depends on.
type config struct {
	Redis string // host:port of a Redis; empty to start one

	Processes      int           // client processes of each strategy
	Rate           float64       // calls a second, of all processes together
	AttemptTimeout time.Duration // time for one attempt
	Deadline       time.Duration // time for the whole call

	Workers     int           // attempts the healthy server works on at once
	ServiceTime time.Duration // mean time a worker spends on one attempt
	Capacity    float64       // per cent of the workers left in the overload

	Health time.Duration // before the overload; fills the budgets
	Fault  time.Duration // the overload
	Tail   time.Duration // after it

	Seed  uint64
	Quick bool
}

func fullConfig() config {
	return config{
		Processes:      4,
		Rate:           240,
		AttemptTimeout: 250 * time.Millisecond,
		Deadline:       time.Second,
		Workers:        30,
		ServiceTime:    100 * time.Millisecond,
		Capacity:       60,
		// 200 successes fill a budget of 20 tokens.
		Health: 6 * time.Second,
		Fault:  6 * time.Second,
		Tail:   20 * time.Second,
		Seed:   1,
	}
}

// quickConfig ends with the overload.
func quickConfig() config {
	c := fullConfig()
	c.Quick = true
	c.Health, c.Fault, c.Tail = 5*time.Second, 4*time.Second, time.Second
	return c
}

// length is how long calls are started for.
func (c config) length() time.Duration { return c.Health + c.Fault + c.Tail }

// capacity is how many attempts a second the healthy server can finish.
func (c config) capacity() float64 { return float64(c.Workers) / c.ServiceTime.Seconds() }

// arrivals are when one process starts its calls, the same for each strategy.
func (c config) arrivals(process int) []time.Duration {
	return slices.Collect(openloop.Arrivals(openloop.Random(c.Seed+uint64(process)), c.Rate/float64(c.Processes), c.length())) //nolint:gosec // validated
}

func (c config) validate() error {
	switch {
	case c.Processes < 2 || c.Processes > 100:
		return fmt.Errorf("-processes %d: must be 2 to 100", c.Processes)
	case !(c.Rate > 0) || c.Rate > 10_000:
		return fmt.Errorf("-rate %v: must be above 0 and at most 10000", c.Rate)
	case c.Workers < 1:
		return fmt.Errorf("-workers %d: must be at least 1", c.Workers)
	case !(c.Capacity >= 0) || c.Capacity > 100:
		return fmt.Errorf("-capacity %v: must be 0 to 100", c.Capacity)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"attempt-timeout", c.AttemptTimeout},
		{"deadline", c.Deadline},
		{"service-time", c.ServiceTime},
		{"health", c.Health},
		{"fault", c.Fault},
		{"tail", c.Tail},
	} {
		if d.value <= 0 || d.value > time.Hour {
			return fmt.Errorf("-%s %v: must be above 0 and at most 1h", d.flag, d.value)
		}
	}
	return nil
}

const usageText = `fleet overloads one server and counts the retries that several client processes
send it: without retries, with a budget in each process, and with one budget for
all of them in Redis. Each way has a server and client processes of its own, and
gets the same calls at the same moments. It ends with one table.

usage: go -C examples run ./fleet [flags]

`

// parseFlags turns the command line into a config that passed validation. It
// returns flag.ErrHelp after -h; help and nothing else is written to out.
func parseFlags(args []string, out io.Writer) (config, error) {
	cfg, err := parseOver(fullConfig(), args, out)
	if err == nil && cfg.Quick {
		// -quick changes the defaults; what the user spelled out still wins.
		cfg, err = parseOver(quickConfig(), args, out)
	}
	if err != nil {
		return config{}, err
	}
	return cfg, cfg.validate()
}

// parseOver reads the flags over the given defaults.
func parseOver(cfg config, args []string, out io.Writer) (config, error) {
	set := flag.NewFlagSet("fleet", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run prints errors itself, one line each
	set.StringVar(&cfg.Redis, "redis", cfg.Redis, "host:port of a Redis to use; without it, one is started and ended again")
	set.BoolVar(&cfg.Quick, "quick", cfg.Quick, "short run; exit status 1 unless the retries are as they should be")
	set.IntVar(&cfg.Processes, "processes", cfg.Processes, "client processes of each strategy")
	set.Float64Var(&cfg.Rate, "rate", cfg.Rate, "calls a second, of all processes together")
	set.DurationVar(&cfg.AttemptTimeout, "attempt-timeout", cfg.AttemptTimeout, "limit of an attempt")
	set.DurationVar(&cfg.Deadline, "deadline", cfg.Deadline, "limit of a call")
	set.IntVar(&cfg.Workers, "workers", cfg.Workers, "attempts that the healthy server works on at once")
	set.DurationVar(&cfg.ServiceTime, "service-time", cfg.ServiceTime, "mean time a worker spends on one attempt")
	set.Float64Var(&cfg.Capacity, "capacity", cfg.Capacity, "per cent of the workers left in the overload")
	set.DurationVar(&cfg.Health, "health", cfg.Health, "length of the health before the overload")
	set.DurationVar(&cfg.Fault, "fault", cfg.Fault, "length of the overload")
	set.DurationVar(&cfg.Tail, "tail", cfg.Tail, "length of the time after it")
	set.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of arrivals and service times")

	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usageText)
		set.SetOutput(out)
		set.PrintDefaults()
		fmt.Fprint(out, "\nexit status: 0 done, 1 failed, no Redis, or -quick not met, 2 bad flag, 130 interrupted\n")
		return config{}, err
	}
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return cfg, err
}
