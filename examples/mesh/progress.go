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

// showProgress shows how far the scenes are until ctx ends: a bar on a terminal,
// plain lines elsewhere.
func showProgress(out io.Writer) func(context.Context, *live) {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return func(ctx context.Context, l *live) { showBar(ctx, out, l) }
	}
	return func(ctx context.Context, l *live) { showLines(ctx, out, l) }
}

func showBar(ctx context.Context, out io.Writer, l *live) {
	length := l.config.length()
	bar := progressbar.NewOptions64(length.Milliseconds(),
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)
	part := ""
	every(ctx, barStep, func() {
		if p := l.part(); p != part {
			part = p
			bar.Describe(fmt.Sprintf("%s: %s", l.names(), part))
		}
		// A full bar is cleared, and the last calls are still to be waited for.
		bar.Set64(min(l.now(), length-time.Millisecond).Milliseconds()) //nolint:errcheck // a terminal that is gone is no reason to stop
	})
	bar.Finish() //nolint:errcheck // as above
}

func showLines(ctx context.Context, out io.Writer, l *live) {
	part := ""
	fmt.Fprintf(out, "%s; numbers are attempts at C for each user call\n", l.names())
	every(ctx, barStep, func() {
		now := l.now()
		if now-l.seenAt >= lineStep {
			fmt.Fprintf(out, "%5.1f s  %s\n", now.Seconds(), l.load())
		}
		if p := l.part(); p != part {
			part = p
			fmt.Fprintf(out, "%5.1f s  %s\n", now.Seconds(), part)
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
