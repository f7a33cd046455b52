package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

const usageText = `storm plays a fault to several gRPC retry strategies over loopback TCP: first
health, then the fault of the scenario, then health again. Every strategy gets the
same calls at the same moments and a server of its own; all of them run side by
side. It ends with one table and one HTML report.

usage: go -C examples run ./storm [flags]

`

// parseFlags turns the command line into a config that passed validation. It
// returns flag.ErrHelp after -h; help and nothing else is written to out.
func parseFlags(args []string, out io.Writer) (config, error) {
	overload, _ := scenarioNamed(judged)
	cfg, err := parseOver(defaults(overload, false), args, out)
	if err != nil {
		return config{}, err
	}
	// -scenario and -quick change the defaults; what the user spelled out still
	// wins.
	if cfg, err = parseOver(defaults(cfg.scenario(), cfg.Quick), args, out); err != nil {
		return config{}, err
	}
	return cfg, cfg.validate()
}

// parseOver reads the flags over the given defaults.
func parseOver(cfg config, args []string, out io.Writer) (config, error) {
	set := flag.NewFlagSet("storm", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run prints errors itself, one line each
	strategies := strings.Join(cfg.Strategies, ",")
	set.StringVar(&cfg.Scenario, "scenario", cfg.Scenario, "the fault; each has defaults of its own for server and durations")
	set.StringVar(&strategies, "strategies", strategies, "what to compare, separated by commas")
	set.BoolVar(&cfg.Quick, "quick", cfg.Quick, "short story; in the overload, exit status 1 unless naive collapses and retrybudget recovers")
	set.Float64Var(&cfg.Rate, "rate", cfg.Rate, "calls a second over all clients")
	set.IntVar(&cfg.Clients, "clients", cfg.Clients, "client processes, each with its own connection and retry state")
	set.DurationVar(&cfg.AttemptTimeout, "attempt-timeout", cfg.AttemptTimeout, "limit of one attempt")
	set.DurationVar(&cfg.Deadline, "deadline", cfg.Deadline, "limit of one call")
	set.IntVar(&cfg.Workers, "workers", cfg.Workers, "attempts the healthy server works on at once")
	set.DurationVar(&cfg.ServiceTime, "service-time", cfg.ServiceTime, "mean time a worker spends on one attempt in health")
	set.Float64Var(&cfg.FaultCapacity, "fault-capacity", cfg.FaultCapacity, "overload: per cent of the workers left in the fault")
	set.Float64Var(&cfg.Slow, "slow", cfg.Slow, "slowdown: what the service time is multiplied by in the fault")
	set.IntVar(&cfg.Down, "down", cfg.Down, fmt.Sprintf("partial: how many of %d backends are down in the fault", backends))
	set.Float64Var(&cfg.Errors, "errors", cfg.Errors, "per cent of attempts that fail at random with UNAVAILABLE, all the time")
	set.DurationVar(&cfg.Health, "health", cfg.Health, "length of the healthy time before the fault")
	set.DurationVar(&cfg.Fault, "fault", cfg.Fault, "length of the fault")
	set.DurationVar(&cfg.Tail, "tail", cfg.Tail, "length of the time after the fault")
	set.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of arrivals, service times and random errors")
	set.StringVar(&cfg.Out, "out", cfg.Out, `path of the HTML report; "" writes none`)
	set.StringVar(&cfg.Serve, "serve", cfg.Serve, "address, as in localhost:8080, where a live page and /metrics stay up until Ctrl-C")

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
	cfg.Strategies = terminal.Names(strategies)
	if _, ok := scenarioNamed(cfg.Scenario); !ok {
		return config{}, fmt.Errorf("-scenario %q: unknown; known are %s", cfg.Scenario, strings.Join(scenarioNames(), ", "))
	}
	return cfg, checkOwned(set, cfg.Scenario)
}

// checkOwned refuses a flag that was set and belongs to another scenario: it
// would change nothing.
func checkOwned(set *flag.FlagSet, scenario string) error {
	var err error
	set.Visit(func(f *flag.Flag) {
		for _, s := range scenarios {
			if s.Flag == f.Name && s.Name != scenario {
				err = fmt.Errorf("-%s %v: means nothing without -scenario %s", f.Name, f.Value, s.Name)
			}
		}
	})
	return err
}

func writeUsage(set *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, usageText)
	set.SetOutput(out)
	set.PrintDefaults()
	fmt.Fprint(out, "\nscenarios, by what is so in the fault:\n")
	for _, s := range scenarios {
		fmt.Fprintf(out, "  %-21s %s\n", s.Name, s.about(defaults(s, false)))
	}
	fmt.Fprint(out, "\nstrategies:\n")
	for _, s := range strategies {
		fmt.Fprintf(out, "  %-21s %s\n", s.Name, s.Title)
	}
	fmt.Fprint(out, "\nexit status: 0 done, 1 failed or -quick not met, 2 bad flag, 130 interrupted\n")
}
