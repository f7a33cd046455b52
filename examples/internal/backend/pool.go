package backend

import (
	"sync"
	"time"
)

// Pool is a server's capacity: a number of workers and a queue without an end in
// front of them. A worker does not compute, it waits: that takes no processor, so
// the limit that is met is this one and never the machine's.
//
// Work once accepted is finished, also when its caller has given up: that is
// what makes a storm last after its cause is gone.
//
// A timer that fires late delays one answer, never the next job of that worker,
// which starts when the one before it should have ended. So a busy machine does
// not make the capacity smaller than it is said to be.
type Pool struct {
	mu     sync.Mutex
	limit  int
	slow   float64 // what the time of work that starts now is multiplied by
	busy   int
	queue  []job
	closed bool
}

type job struct {
	queued time.Time
	took   time.Duration
	done   chan struct{}
}

// NewPool returns a pool in which that many attempts are worked on at once.
func NewPool(workers int) *Pool {
	return &Pool{limit: workers, slow: 1}
}

// Do queues work and returns a channel that is closed when it is finished.
func (p *Pool) Do(took time.Duration) <-chan struct{} {
	done := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return done
	}
	now := time.Now()
	p.queue = append(p.queue, job{queued: now, took: took, done: done})
	p.startLocked(now)
	return done
}

// Resize changes the number of workers. Those taken away finish what they have.
func (p *Pool) Resize(workers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = workers
	p.startLocked(time.Now())
}

// Slow changes what the time of work is multiplied by. Work that has been started
// takes the time that it was given.
func (p *Pool) Slow(times float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = times
}

// Close drops the queue; no work is started any more.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.queue = nil
}

// startLocked gives work to the workers that have been free since a moment.
func (p *Pool) startLocked(free time.Time) {
	for p.busy < p.limit && len(p.queue) > 0 {
		next := p.queue[0]
		p.queue = p.queue[1:]
		p.busy++
		start := free
		if next.queued.After(start) {
			start = next.queued
		}
		end := start.Add(time.Duration(p.slow * float64(next.took)))
		time.AfterFunc(time.Until(end), func() { p.finish(next, end) })
	}
}

func (p *Pool) finish(j job, end time.Time) {
	close(j.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.startLocked(end)
}
