package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// finished is when each job of a pool ends, from now, in the order in which
// the jobs were given.
func finished(done []<-chan struct{}) []time.Duration {
	start := time.Now()
	var at []time.Duration
	for _, d := range done {
		<-d
		at = append(at, time.Since(start))
	}
	return at
}

func TestWorkerPool_worksAtItsLimitInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorkerPool(2)
		var done []<-chan struct{}
		for range 6 {
			done = append(done, p.do(time.Second))
		}
		assert.Equal(t, []time.Duration{1e9, 1e9, 2e9, 2e9, 3e9, 3e9}, finished(done))
	})
}

// Nobody reads the channels of the first jobs: their callers are gone.
func TestWorkerPool_finishesAbandonedWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorkerPool(1)
		for range 3 {
			p.do(time.Second)
		}
		assert.Equal(t, []time.Duration{4 * time.Second}, finished([]<-chan struct{}{p.do(time.Second)}))
	})
}

func TestWorkerPool_resize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorkerPool(2)
		var done []<-chan struct{}
		for range 5 {
			done = append(done, p.do(2*time.Second))
		}
		time.AfterFunc(time.Second, func() { p.resize(1) })   // both go on, only one starts anew
		time.AfterFunc(5*time.Second, func() { p.resize(3) }) // the rest starts at once
		assert.Equal(t, []time.Duration{2e9, 2e9, 4e9, 6e9, 7e9}, finished(done))
	})
}

func TestWorkerPool_noWorkersWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorkerPool(1)
		p.resize(0)
		done := p.do(time.Second)
		time.AfterFunc(time.Minute, func() { p.resize(1) })
		assert.Equal(t, []time.Duration{61 * time.Second}, finished([]<-chan struct{}{done}))
	})
}

func TestWorkerPool_closeStartsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorkerPool(1)
		running, waiting := p.do(time.Second), p.do(time.Second)
		p.close()
		late := p.do(time.Second)
		assert.Equal(t, []time.Duration{time.Second}, finished([]<-chan struct{}{running}))
		select {
		case <-waiting:
			assert.Fail(t, "queued work was done after close")
		case <-late:
			assert.Fail(t, "work was accepted after close")
		case <-time.After(time.Hour):
		}
	})
}
