package main

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

// showProgress shows how far the story is until ctx ends: a bar on a terminal,
// plain lines elsewhere.
func showProgress(out io.Writer) func(context.Context, *live) {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return func(ctx context.Context, l *live) { showBar(ctx, out, l) }
	}
	return func(ctx context.Context, l *live) { showLines(ctx, out, l) }
}

func showBar(ctx context.Context, out io.Writer, l *live) {
	bar := progressbar.NewOptions64(l.story.length().Milliseconds(),
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)
	name := ""
	every(ctx, barStep, func() {
		now := l.now()
		if p := l.story.at(now); p.Name != name {
			name = p.Name
			bar.Describe(fmt.Sprintf("%-24s", name))
		}
		bar.Set64(now.Milliseconds()) //nolint:errcheck // a terminal that is gone is no reason to stop
	})
	bar.Finish() //nolint:errcheck // as above
}

func showLines(ctx context.Context, out io.Writer, l *live) {
	name := ""
	fmt.Fprintf(out, "a story of %v; numbers are the load on each strategy's server, 1.0 is one attempt for each call\n", l.story.length())
	every(ctx, barStep, func() {
		now := l.now()
		if now-l.seenAt >= lineStep {
			fmt.Fprintf(out, "%5.1f s    %s\n", now.Seconds(), l.load())
		}
		if p := l.story.at(now); p.Name != name {
			name = p.Name
			fmt.Fprintf(out, "%5.1f s  %s\n", now.Seconds(), name)
		}
	})
}

// every calls do at once and then at each step until ctx ends.
func every(ctx context.Context, step time.Duration, do func()) {
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
