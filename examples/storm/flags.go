package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

const usageText = `storm plays one overload story to several gRPC retry strategies over loopback TCP:
health, then capacity falls, then it returns. Every strategy gets the same calls
at the same moments and a server of its own; all of them run side by side. It
ends with one table and one HTML report.

usage: go -C examples run ./storm [flags]

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
	set := flag.NewFlagSet("storm", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run prints errors itself, one line each
	strategies := strings.Join(cfg.Strategies, ",")
	set.StringVar(&strategies, "strategies", strategies, "what to compare, separated by commas")
	set.BoolVar(&cfg.Quick, "quick", cfg.Quick, "short story; exit status 1 unless naive collapses and retrybudget recovers")
	set.Float64Var(&cfg.Rate, "rate", cfg.Rate, "calls a second over all clients")
	set.IntVar(&cfg.Clients, "clients", cfg.Clients, "client processes, each with its own connection and retry state")
	set.DurationVar(&cfg.AttemptTimeout, "attempt-timeout", cfg.AttemptTimeout, "limit of one attempt")
	set.DurationVar(&cfg.Deadline, "deadline", cfg.Deadline, "limit of one call")
	set.IntVar(&cfg.Workers, "workers", cfg.Workers, "attempts the healthy server works on at once")
	set.DurationVar(&cfg.ServiceTime, "service-time", cfg.ServiceTime, "mean time a worker spends on one attempt")
	set.Float64Var(&cfg.FaultCapacity, "fault-capacity", cfg.FaultCapacity, "per cent of the workers left in the fault")
	set.Float64Var(&cfg.Errors, "errors", cfg.Errors, "per cent of attempts that fail at random with UNAVAILABLE, all the time")
	set.DurationVar(&cfg.Health, "health", cfg.Health, "length of the healthy time before the fault")
	set.DurationVar(&cfg.Fault, "fault", cfg.Fault, "length of the fault")
	set.DurationVar(&cfg.Tail, "tail", cfg.Tail, "length of the time after the fault")
	set.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of arrivals, service times and random errors")
	set.StringVar(&cfg.Out, "out", cfg.Out, `path of the HTML report; "" writes none`)

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
	cfg.Strategies = splitNames(strategies)
	return cfg, nil
}

func writeUsage(set *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, usageText)
	set.SetOutput(out)
	set.PrintDefaults()
	fmt.Fprint(out, "\nstrategies:\n")
	for _, s := range strategies {
		fmt.Fprintf(out, "  %-15s %s\n", s.Name, s.Title)
	}
	fmt.Fprint(out, "\nexit status: 0 done, 1 failed or -quick not met, 2 bad flag, 130 interrupted\n")
}

func splitNames(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}
