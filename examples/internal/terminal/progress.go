package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	barStep  = 200 * time.Millisecond
	lineStep = 5 * time.Second
)

// Run is what can be seen of a run while it goes on.
type Run interface {
	Length() time.Duration
	Now() time.Duration // since the run's start
	Head() string       // what is played, and what the numbers of Load are
	Part() string       // what is going on now
	Label() string      // the same, to stand beside a bar
	// Load tells how much was sent since it was last asked, some time ago.
	Load(since time.Duration) string
}

// Progress shows how far a run is until ctx ends: a bar on a terminal, plain
// lines elsewhere.
func Progress[R Run](out io.Writer) func(context.Context, R) {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return func(ctx context.Context, r R) { showBar(ctx, out, r) }
	}
	return func(ctx context.Context, r R) { showLines(ctx, out, r) }
}

func showBar(ctx context.Context, out io.Writer, r Run) {
	bar := progressbar.NewOptions64(r.Length().Milliseconds(),
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)
	part := ""
	Every(ctx, barStep, func() {
		if p := r.Part(); p != part {
			part = p
			bar.Describe(r.Label())
		}
		// A full bar is cleared, and the last calls are still to be waited for.
		bar.Set64(min(r.Now(), r.Length()-time.Millisecond).Milliseconds()) //nolint:errcheck // a terminal that is gone is no reason to stop
	})
	bar.Finish() //nolint:errcheck // as above
}

func showLines(ctx context.Context, out io.Writer, r Run) {
	part, shown := "", time.Duration(0)
	fmt.Fprintln(out, r.Head())
	Every(ctx, barStep, func() {
		now := r.Now()
		if now-shown >= lineStep {
			fmt.Fprintf(out, "%5.1f s    %s\n", now.Seconds(), r.Load(now-shown))
			shown = now
		}
		if p := r.Part(); p != part {
			part = p
			fmt.Fprintf(out, "%5.1f s  %s\n", now.Seconds(), part)
		}
	})
}

// Every calls do at once and then at each step until ctx ends.
func Every(ctx context.Context, step time.Duration, do func()) {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
