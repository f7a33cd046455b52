package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

const usageText = `mesh breaks a chain of services, driver -> A -> B -> C, and counts attempts. Each
edge may try three times; B runs as ten instances. Every way to retry gets the
same user calls at the same moments in a mesh of its own: first health, which
funds the budgets, then a fault that stays. It ends with one table.

usage: go -C examples run ./mesh [flags]

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
	set := flag.NewFlagSet("mesh", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run prints errors itself, one line each
	scenarios, strategies := strings.Join(cfg.Scenarios, ","), strings.Join(cfg.Strategies, ",")
	set.StringVar(&scenarios, "scenarios", scenarios, "what to break, separated by commas")
	set.StringVar(&strategies, "strategies", strategies, "what to compare, separated by commas")
	set.BoolVar(&cfg.Quick, "quick", cfg.Quick, "short run; exit status 1 unless the multipliers and the availability are as they should be")
	set.Float64Var(&cfg.Rate, "rate", cfg.Rate, "user calls a second")
	set.DurationVar(&cfg.Deadline, "deadline", cfg.Deadline, "limit of a user call")
	set.DurationVar(&cfg.AttemptTimeout, "attempt-timeout", cfg.AttemptTimeout, "limit of an attempt of B at C where C is overloaded; 4 times that for A at B, 16 times for the driver at A")
	set.IntVar(&cfg.Workers, "workers", cfg.Workers, "attempts that C works on at once")
	set.DurationVar(&cfg.ServiceTime, "service-time", cfg.ServiceTime, "mean time a worker of C spends on one attempt")
	set.Float64Var(&cfg.Failing, "failing", cfg.Failing, "per cent of the attempts that a failing C answers UNAVAILABLE")
	set.Float64Var(&cfg.Capacity, "capacity", cfg.Capacity, "per cent of the workers left to an overloaded C")
	set.DurationVar(&cfg.Warmup, "warmup", cfg.Warmup, "length of the health before the fault")
	set.DurationVar(&cfg.Fault, "fault", cfg.Fault, "length of the fault, which is what is measured")
	set.IntVar(&cfg.Together, "together", cfg.Together, "scenarios played at the same time")
	set.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of arrivals, service times and random errors")

	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		writeUsage(set, out)
		return config{}, err
	}
	if err != nil {
		return config{}, err
	}
	if set.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	cfg.Scenarios, cfg.Strategies = terminal.Names(scenarios), terminal.Names(strategies)
	return cfg, nil
}

func writeUsage(set *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, usageText)
	set.SetOutput(out)
	set.PrintDefaults()
	fmt.Fprint(out, "\nscenarios:\n")
	for _, s := range scenarios {
		fmt.Fprintf(out, "  %-12s %s\n", s.Name, s.title(fullConfig()))
	}
	fmt.Fprint(out, "\nstrategies:\n")
	for _, s := range strategies {
		fmt.Fprintf(out, "  %-12s %s\n", s.Name, s.Title)
	}
	fmt.Fprint(out, "\nexit status: 0 done, 1 failed or -quick not met, 2 bad flag, 130 interrupted\n")
}
