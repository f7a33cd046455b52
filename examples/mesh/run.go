package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
	"github.com/retrybudget/retrybudget/examples/internal/openloop"
)

// result is a whole run.
type result struct {
	Config      config
	Rows        []measured // by scenario, then by strategy
	Machine     machine.Load
	Interrupted bool
}

// play plays all scenarios of the config, so many at the same time as it says,
// each with all strategies side by side, until the end or until ctx ends.
func play(ctx context.Context, c config, show func(context.Context, *live)) (result, error) {
	r := result{Config: c, Machine: machine.Load{Measured: true}}
	calls := schedule(c)
	for names := range slices.Chunk(c.Scenarios, c.Together) {
		scenes, err := newScenes(ctx, c, names, len(calls))
		if err != nil && ctx.Err() != nil && len(r.Rows) > 0 {
			break // what was measured before is worth showing
		}
		if err != nil {
			return result{}, err
		}
		rows, load := playTogether(ctx, c, scenes, calls, show)
		r.Rows = append(r.Rows, rows...)
		r.Machine = r.Machine.Worse(load)
	}
	r.Interrupted = ctx.Err() != nil
	return r, nil
}

// newScenes starts the scenes of some scenarios with every strategy.
func newScenes(ctx context.Context, c config, scenarioNames []string, calls int) ([]*scene, error) {
	var scenes []*scene
	for _, scenario := range scenarioNames {
		for _, strategy := range c.Strategies {
			s, err := newScene(ctx, c, scenario, strategy, calls)
			if err != nil {
				for _, s := range scenes {
					s.mesh.close()
				}
				return nil, err
			}
			scenes = append(scenes, s)
		}
	}
	return scenes, nil
}

// playTogether plays scenes at the same time. They share nothing but the machine,
// whose load is measured from the beginning of the fault on.
func playTogether(ctx context.Context, c config, scenes []*scene, calls []time.Duration, show func(context.Context, *live)) ([]measured, machine.Load) {
	start := time.Now()
	fault := start.Add(c.Warmup)
	shown, stopShowing := context.WithCancel(ctx)
	var showing, playing sync.WaitGroup
	showing.Go(func() { show(shown, &live{config: c, start: start, scenes: scenes}) })
	meter := machine.Start()
	playing.Go(func() {
		if openloop.WaitUntil(ctx, fault) {
			meter = machine.Start()
		}
	})
	for _, s := range scenes {
		playing.Go(func() { s.play(ctx, c, calls, start) })
	}
	playing.Wait()
	load := meter.Stop(lateness(c, scenes, calls), c.AttemptTimeout)
	stopShowing()
	showing.Wait()

	var rows []measured
	for _, s := range scenes {
		s.mesh.close()
		rows = append(rows, measure(c, s, calls, fault))
	}
	return rows, load
}

// lateness is how late the calls of the fault were started.
func lateness(c config, scenes []*scene, calls []time.Duration) []time.Duration {
	var late []time.Duration
	for _, s := range scenes {
		for i, o := range s.outcomes {
			if o.started && calls[i] >= c.Warmup {
				late = append(late, o.late)
			}
		}
	}
	return late
}
