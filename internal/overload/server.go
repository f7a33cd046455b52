package overload

import (
	"container/heap"
	"sync"
	"time"
)

// server is a pool of workers behind a queue without an end. Work once accepted
// is finished, also when its caller has given up.
//
// So the moment at which a job ends is known when it arrives: the queue is first
// in, first out, and nothing that comes later can change it. The server needs no
// goroutine and no timer, only the moments at which its workers will be free.
type server struct {
	mu     sync.Mutex
	free   moments
	fault  window
	away   int     // workers that the fault takes
	parked int     // of them, those already gone
	slow   float64 // how many times as long a job takes that starts in the fault

	shedBehind time.Duration
	shedCost   float64
}

func newServer(s Scenario, fault window) server {
	return server{
		free: make(moments, s.Workers), fault: fault, away: s.Away, slow: max(s.Slow, 1),
		shedBehind: s.ShedBehind, shedCost: s.ShedCost,
	}
}

// window is a stretch of time since the start of the world.
type window struct{ from, to time.Duration }

func (w window) holds(t time.Duration) bool { return t >= w.from && t < w.to }

// accept queues a job that arrives now and takes the given work. It returns the
// moment at which the job will be finished, and whether it is then served or
// turned away.
func (s *server) accept(now, work time.Duration) (finished time.Duration, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := max(s.free[0], now)
	for s.parked < s.away && s.fault.holds(start) {
		// This worker is free in the fault. It leaves, and comes back after it.
		s.parked++
		s.setNext(s.fault.to)
		start = max(s.free[0], now)
	}
	if s.fault.holds(start) {
		work = time.Duration(float64(work) * s.slow)
	}
	served = s.shedBehind == 0 || start-now <= s.shedBehind
	if !served {
		work = time.Duration(float64(work) * s.shedCost)
	}
	s.setNext(start + work)
	return start + work, served
}

// setNext sets the moment at which the worker that is free first is free next.
func (s *server) setNext(t time.Duration) {
	s.free[0] = t
	heap.Fix(&s.free, 0)
}

// moments is a heap, the earliest first.
type moments []time.Duration

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i] < m[j] }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)        { *m = append(*m, x.(time.Duration)) } //nolint:errcheck // only to satisfy heap.Interface
func (m *moments) Pop() any          { panic("overload: the number of workers never changes") }
