package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// flagSet is the flags of a command.
type flagSet struct {
	*flag.FlagSet

	before, after string // what -h says around the list of the flags
}

func newFlags(name, before, after string) *flagSet {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are printed once, by dispatch
	set.Usage = func() {}
	return &flagSet{set, before, after}
}

// parse returns the arguments that are not flags. Flags may stand after them. On
// -h it prints the help and returns flag.ErrHelp.
func (f *flagSet) parse(args []string, out io.Writer) (rest []string, err error) {
	for {
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			f.help(out)
			return nil, err
		}
		if err != nil {
			return nil, badUsage("%v", err)
		}
		if f.NArg() == 0 {
			return rest, nil
		}
		if at := len(args) - f.NArg(); at > 0 && args[at-1] == "--" {
			return append(rest, f.Args()...), nil
		}
		rest = append(rest, f.Arg(0))
		args = f.Args()[1:]
	}
}

func (f *flagSet) help(out io.Writer) {
	fmt.Fprintf(out, "%s\n\nflags:\n", strings.TrimSpace(f.before))
	f.VisitAll(func(fl *flag.Flag) {
		kind, about := flag.UnquoteUsage(fl)
		name := "-" + fl.Name
		if kind != "" {
			name += " " + kind
		}
		if fl.DefValue != "" && fl.DefValue != "0" && fl.DefValue != "false" {
			about += " (default " + fl.DefValue + ")"
		}
		fmt.Fprintf(out, "  %-22s  %s\n", name, strings.ReplaceAll(about, "\n", "\n"+strings.Repeat(" ", 26)))
	})
	fmt.Fprintf(out, "\n%s\n", strings.TrimSpace(f.after))
}

// counts is a list of whole numbers, separated by commas.
type counts []int

func (c *counts) String() string {
	var all []string
	for _, n := range *c {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ",")
}

// Set reads the list of one use of the flag, which replaces the default.
func (c *counts) Set(text string) error {
	*c = nil
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 1_000_000 {
			return fmt.Errorf("%q is not a whole number from 1 to 1000000", part)
		}
		*c = append(*c, n)
	}
	return nil
}

// names is a list of words, separated by commas.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

// Set adds the words of one use of the flag.
func (n *names) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		*n = append(*n, strings.TrimSpace(part))
	}
	return nil
}
