// Storm plays a fault to several gRPC retry strategies, side by side on real gRPC
// over loopback, and shows what each makes of it. The fault is an overload, where
// some of them keep the server down after the cause is gone; with -scenario it is
// an outage, a slow-down or a partial outage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1 // the run failed, or -quick's demands were not met
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// After the first Ctrl-C a second one kills, in case the end takes too long.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program: results go to stdout, progress and errors to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "storm: %v\nstorm: -h lists the flags\n", err)
		return exitUsage
	}
	show := terminal.Progress[*live](stderr)
	var s *site
	if c.Serve != "" {
		if s, err = openSite(c); err != nil {
			fmt.Fprintf(stderr, "storm: -serve %q: %v\n", c.Serve, err)
			return exitFailed
		}
		defer s.close()
		fmt.Fprintf(stderr, "live page: %s\n", s.url)
		show = s.follow(show)
	}
	r, err := play(ctx, c, show)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(stderr, "storm: interrupted before the run began")
		return exitInterrupted
	}
	if err != nil {
		fmt.Fprintf(stderr, "storm: %v\n", err)
		return exitFailed
	}
	code := report(r, args, stdout, stderr)
	if s != nil {
		s.end(r)
	}
	if s != nil && !r.Interrupted {
		fmt.Fprintln(stderr, "the live page stays up until Ctrl-C")
		<-ctx.Done()
	}
	return code
}

// report prints table, report and verdict, and returns the exit code.
func report(r result, args []string, stdout, stderr io.Writer) int {
	if r.Interrupted {
		fmt.Fprintf(stdout, "interrupted after %s of %s; this is what was measured until then\n", secondsText(r.Until), secondsText(r.Story.length()))
	}
	writeTable(stdout, r)
	code := exitDone
	if r.Config.Out != "" {
		if err := writeReport(r, args); err != nil {
			fmt.Fprintf(stderr, "storm: report: %v\n", err)
			code = exitFailed
		} else {
			fmt.Fprintf(stdout, "report: %s\n", r.Config.Out)
		}
	}
	if r.Interrupted {
		return exitInterrupted
	}
	if r.Config.Quick && !writeVerdict(stdout, r) {
		code = exitFailed
	}
	return code
}
