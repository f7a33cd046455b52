// Mesh breaks the deepest of three services, or one instance in the middle, and
// counts what retries on every edge make of it: real gRPC over loopback, once
// for each way to retry.
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
		fmt.Fprintf(stderr, "mesh: %v\nmesh: -h lists the flags\n", err)
		return exitUsage
	}
	r, err := play(ctx, c, terminal.Progress[*live](stderr))
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(stderr, "mesh: interrupted before the run began")
		return exitInterrupted
	}
	if err != nil {
		fmt.Fprintf(stderr, "mesh: %v\n", err)
		return exitFailed
	}
	return report(r, stdout)
}

// report prints table and verdict, and returns the exit code.
func report(r result, stdout io.Writer) int {
	if r.Interrupted {
		fmt.Fprintln(stdout, "interrupted; this is what was measured until then")
	}
	writeTable(stdout, r)
	if r.Interrupted {
		return exitInterrupted
	}
	if r.Config.Quick && !writeVerdict(stdout, r) {
		return exitFailed
	}
	return exitDone
}
