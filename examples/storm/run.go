package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
)

// result is a whole run.
type result struct {
	Config      config
	Story       story
	Rows        []measured
	Machine     machine.Load
	Until       time.Duration // how much of the story was lived
	Interrupted bool
}

// play runs all strategies of the config side by side, until the story or ctx
// ends, and measures them. The worlds share nothing but the machine.
func play(ctx context.Context, c config, show func(context.Context, *live)) (result, error) {
	st := storyOf(c)
	calls := schedule(c)
	worlds, err := newWorlds(ctx, c, len(calls))
	if err != nil {
		return result{}, err
	}
	meter := machine.Start()
	start := time.Now()
	shown, stopShowing := context.WithCancel(ctx)
	var showing, playing sync.WaitGroup
	showing.Go(func() { show(shown, &live{story: st, start: start, rate: c.Rate, worlds: worlds}) })
	for _, w := range worlds {
		playing.Go(func() { w.play(ctx, c, st, calls, start) })
	}
	playing.Wait()
	until := min(time.Since(start), st.length())
	load := meter.Stop(lateness(worlds), c.AttemptTimeout)
	stopShowing()
	showing.Wait()

	r := result{Config: c, Story: st, Machine: load, Until: until, Interrupted: ctx.Err() != nil}
	for _, w := range worlds {
		w.close()
		r.Rows = append(r.Rows, measure(c, w.strategy, st, w.observed(start), until))
	}
	return r, nil
}

func newWorlds(ctx context.Context, c config, calls int) ([]*world, error) {
	var worlds []*world
	for _, name := range c.Strategies {
		s, _ := strategyNamed(name) // validated
		w, err := newWorld(ctx, c, s, calls)
		if err != nil {
			for _, w := range worlds {
				w.close()
			}
			return nil, err
		}
		worlds = append(worlds, w)
	}
	return worlds, nil
}

// observed turns what was counted into moments of the story. It may be called
// when play and close have returned.
func (w *world) observed(start time.Time) observation {
	seen := observation{}
	for i, o := range w.outcomes {
		if o.done {
			seen.Calls = append(seen.Calls, callSeen{
				Start:    o.started.Sub(start),
				End:      o.ended.Sub(start),
				OK:       o.ok,
				Attempts: w.service.Attempts(i),
			})
		}
	}
	// The goroutines of two calls a moment apart may start in either order.
	slices.SortStableFunc(seen.Calls, func(a, b callSeen) int { return cmp.Compare(a.Start, b.Start) })
	seen.Attempts = w.arrivals.Since(start)
	return seen
}

func lateness(worlds []*world) []time.Duration {
	var late []time.Duration
	for _, w := range worlds {
		for _, o := range w.outcomes {
			if !o.started.IsZero() {
				late = append(late, o.late)
			}
		}
	}
	return late
}
