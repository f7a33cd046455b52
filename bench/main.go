// Command bench compares the cost of retrybudget with that of other ways to
// retry, in rounds of short runs that take turns, and prints one table. With
// -quick it checks allocations instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are what the command line says.
type options struct {
	rounds    int
	benchtime time.Duration
	quick     bool
	sections  []section
}

// errUsage marks a command line that cannot be obeyed; the flag set has said
// why.
var errUsage = errors.New("bench: wrong usage")

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 51, "how often each contestant is measured")
	flags.DurationVar(&o.benchtime, "benchtime", 10*time.Millisecond, "how long one run takes, about; whole calls run four times as long")
	flags.BoolVar(&o.quick, "quick", false, "measure no times: check allocations, and exit 1 if there are too many")
	pattern := flags.String("run", "", "only the sections that match this `regexp`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	wrong := func(format string, args ...any) (options, error) {
		fmt.Fprintf(stderr, "bench: "+format+"\n", args...)
		return o, errUsage
	}
	timing := ""
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "rounds" || f.Name == "benchtime" {
			timing = f.Name
		}
	})
	match, err := regexp.Compile(*pattern)
	switch {
	case flags.NArg() > 0:
		return wrong("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1:
		return wrong("-rounds %d is not at least 1", o.rounds)
	case o.benchtime <= 0:
		return wrong("-benchtime %v is not positive", o.benchtime)
	case o.quick && timing != "":
		return wrong("-%s says how to measure times, which -quick does not", timing)
	case err != nil:
		return wrong("-run %q: %v", *pattern, err)
	}
	all := sections()
	names := make([]string, 0, len(all))
	for _, s := range all {
		names = append(names, s.name)
	}
	o.sections = slices.DeleteFunc(all, func(s section) bool { return !match.MatchString(s.name) })
	if len(o.sections) == 0 {
		return wrong("-run %q matches none of the sections %s", *pattern, strings.Join(names, ", "))
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	fmt.Fprintln(stdout, machine())
	if o.quick {
		err = runQuick(ctx, o, stdout)
	} else {
		err = runRounds(ctx, o, stdout, stderr)
	}
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted; these are the rounds that were complete")
		return exitInterrupted
	default:
		fmt.Fprintln(stderr, "bench:", strings.TrimPrefix(err.Error(), "bench: "))
		return exitFailed
	}
}

// runRounds measures all sections and prints the table, also of what there is
// when it cannot finish.
func runRounds(ctx context.Context, o options, stdout, stderr io.Writer) error {
	var results []result
	var err error
	for i, s := range o.sections {
		fmt.Fprintf(stderr, "%d/%d %s: %d contestants, %d rounds of %v\n", i+1, len(o.sections), s.name, len(s.contestants), o.rounds, s.runtime(o.benchtime))
		var r result
		r, err = compare(ctx, s, o.rounds, o.benchtime)
		results = append(results, r)
		if err != nil {
			break
		}
	}
	most := ""
	if err != nil {
		most = "at most "
	}
	fmt.Fprintf(stdout, "Medians of %s%d rounds of %v a contestant, of whole calls %v.\n\n", most, o.rounds, o.benchtime, rpcStretch*o.benchtime)
	writeResults(stdout, results)
	return err
}

func runQuick(ctx context.Context, o options, stdout io.Writer) error {
	fmt.Fprintln(stdout)
	over, err := check(ctx, stdout, o.sections)
	if err != nil {
		return err
	}
	perKey, err := keyBytes()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nmemory of a method: %.0f B, limit %d B\n", perKey, maxKeyBytes)
	if perKey > maxKeyBytes {
		over++
	}
	if over > 0 {
		return fmt.Errorf("%d over the limit", over)
	}
	return nil
}
