package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// result is a whole run.
type result struct {
	Config config
	Rows   []measured
	Late   time.Duration // how long after its moment a call was started, 99th percentile
}

// headStart is between the last preparation and the first call.
const headStart = 200 * time.Millisecond

// play runs all strategies side by side. They share nothing but the machine.
func play(ctx context.Context, c config, show func(context.Context, *live)) (result, error) {
	address, stop, err := findRedis(ctx, c)
	if err != nil {
		return result{}, err
	}
	defer stop()
	prefix := fmt.Sprintf("retrybudget-example-%x", rand.Uint64())
	var worlds []*world
	defer func() {
		for _, w := range worlds {
			w.close()
		}
	}()
	for i := range strategies {
		w, err := newWorld(ctx, c, i, address, prefix)
		if err != nil {
			return result{}, err
		}
		worlds = append(worlds, w)
	}
	start := time.Now().Add(headStart)
	shown, stopShowing := context.WithCancel(ctx)
	var showing, playing sync.WaitGroup
	showing.Go(func() { show(shown, &live{config: c, start: start, worlds: worlds}) })
	for _, w := range worlds {
		playing.Go(func() { w.play(ctx, c, start) })
	}
	playing.Wait()
	stopShowing()
	showing.Wait()
	for _, w := range worlds {
		if err := errors.Join(w.errs...); err != nil {
			return result{}, fmt.Errorf("%s: %w", w.strategy.Name, err)
		}
	}
	return measureAll(c, worlds, start), ctx.Err()
}

// live is what can be seen of a run while it goes on.
type live struct {
	config config
	start  time.Time
	worlds []*world

	seen []int // retries of each world when load was last asked
}

// Length is how long calls are started for.
func (l *live) Length() time.Duration { return l.config.length() }

// Now is the time since the start.
func (l *live) Now() time.Duration { return max(0, time.Since(l.start)) }

// Part names what is going on.
func (l *live) Part() string {
	switch now := l.Now(); {
	case now < l.config.Health:
		return "health"
	case now < l.config.Health+l.config.Fault:
		return "overload"
	case now < l.config.length():
		return "after it"
	default:
		return "waiting for the last calls"
	}
}

// Label is the same.
func (l *live) Label() string { return l.Part() }

// Head says what the numbers are.
func (l *live) Head() string {
	return fmt.Sprintf("%v, with %d processes for each way to retry; numbers are retries that arrived at its server", l.Length(), l.config.Processes)
}

// Load tells how many retries arrived since the last time it was asked.
func (l *live) Load(time.Duration) string {
	if l.seen == nil {
		l.seen = make([]int, len(l.worlds))
	}
	var loads []string
	for i, w := range l.worlds {
		total := w.retries.Total()
		loads = append(loads, fmt.Sprintf("%s %d", w.strategy.Name, total-l.seen[i]))
		l.seen[i] = total
	}
	return strings.Join(loads, ", ")
}
