package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/openloop"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// scene is one scenario with one strategy.
type scene struct {
	scenario scenario
	strategy strategy
	mesh     *mesh

	outcomes []outcome // of each user call; written once, by the call's own goroutine

	// funds are the tokens when the fault began, by edge.
	funds  [edges]float64
	funded bool // there are budgets, and the fault did begin
}

// outcome is what the user saw of one call.
type outcome struct {
	started bool
	done    bool // false also for a call that an interrupt cut off
	ok      bool
	late    time.Duration // how long after its moment the call was really started
}

// newScene starts what the scene needs.
func newScene(ctx context.Context, c config, scenarioName, strategyName string, calls int) (*scene, error) {
	s := &scene{outcomes: make([]outcome, calls)}
	s.scenario, _ = scenarioNamed(scenarioName) // validated
	s.strategy, _ = strategyNamed(strategyName) // validated
	var timeouts [edges]time.Duration
	if s.scenario.timeouts {
		timeouts = c.timeouts()
	}
	var err error
	s.mesh, err = newMesh(ctx, c, s.strategy, timeouts, calls)
	return s, err
}

// play makes the calls from start on, or until ctx ends, and returns when every
// call that was started has ended.
func (s *scene) play(ctx context.Context, c config, calls []time.Duration, start time.Time) {
	s.mesh.enter(healthy)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for i, p := range s.scenario.phases(c) {
			if !openloop.WaitUntil(ctx, start.Add(p.Start)) {
				return
			}
			if i == 0 {
				s.funds, s.funded = s.mesh.funds()
			}
			s.mesh.enter(p)
		}
	})
	for i, at := range calls {
		if !openloop.WaitUntil(ctx, start.Add(at)) {
			return
		}
		running.Go(func() { s.call(ctx, c, i, start.Add(at)) })
	}
}

func (s *scene) call(ctx context.Context, c config, number int, moment time.Time) {
	o := outcome{started: true, late: time.Since(moment)}
	deadline, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()
	_, err := s.mesh.driver.GetStock(deadline, &quickstartv1.GetStockRequest{Sku: strconv.Itoa(number)})
	o.ok = err == nil
	o.done = o.ok || ctx.Err() == nil
	s.outcomes[number] = o
}
