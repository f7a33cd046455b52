// Fleet runs several client processes against one server that gets overloaded,
// with a retry budget in each process and with one that all of them share through
// Redis, and counts the retries that arrive at the server.
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
	exitFailed      = 1 // the run failed, there is no Redis, or -quick's demands were not met
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if text := os.Getenv(clientVariable); text != "" {
		os.Exit(clientMain(text, os.Stdin, os.Stdout, os.Stderr))
	}
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
		fmt.Fprintf(stderr, "fleet: %v\nfleet: -h lists the flags\n", err)
		return exitUsage
	}
	r, err := play(ctx, c, terminal.Progress[*live](stderr))
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(stderr, "fleet: interrupted")
		return exitInterrupted
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
		return exitFailed
	}
	writeTable(stdout, r)
	if c.Quick && !writeVerdict(stdout, r) {
		return exitFailed
	}
	return exitDone
}
