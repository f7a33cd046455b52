package retrybudget

import (
	"sync"
	"sync/atomic"
	"time"
)

// In an outage every call may end in a refusal. Of one kind, as many are logged
// as refusalBurst says, then one each refusalInterval.
const (
	refusalBurst    = 10
	refusalInterval = 10 * time.Second
)

// maxRefusalKinds bounds what is remembered: the method names that a proxy
// forwards are chosen by others. Further methods share one limit for each reason.
const maxRefusalKinds = 1024

// refusalKind is what a limit is for.
type refusalKind struct {
	method   string
	reason   Reason
	observed bool
}

// refusalLimit decides which refusals are logged. It takes a read lock and
// allocates nothing, once a kind is known.
type refusalLimit struct {
	start time.Time // what gates count from, so that the clock never jumps

	mu    sync.RWMutex
	gates map[refusalKind]*refusalGate
}

func newRefusalLimit() *refusalLimit {
	return &refusalLimit{start: time.Now(), gates: make(map[refusalKind]*refusalGate)}
}

// pass reports whether a refusal is to be logged, and then how many of its kind
// were not since the last one that was.
func (l *refusalLimit) pass(k refusalKind) (suppressed int64, ok bool) {
	return l.gate(k).pass(time.Since(l.start))
}

func (l *refusalLimit) gate(k refusalKind) *refusalGate {
	l.mu.RLock()
	g := l.gates[k]
	full := len(l.gates) >= maxRefusalKinds
	if g == nil && full {
		k.method = ""
		g = l.gates[k]
	}
	l.mu.RUnlock()
	if g != nil {
		return g
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gates) >= maxRefusalKinds {
		k.method = "" // adds as many more as there are reasons
	}
	if l.gates[k] == nil {
		l.gates[k] = new(refusalGate)
	}
	return l.gates[k]
}

// refusalGate is the limit of one kind.
type refusalGate struct {
	// settled is when the lines logged so far, one each refusalInterval, are no
	// debt any more.
	settled    atomic.Int64
	suppressed atomic.Int64 // since the last line
}

func (g *refusalGate) pass(now time.Duration) (suppressed int64, ok bool) {
	for {
		settled := g.settled.Load()
		next := max(settled, int64(now)) + int64(refusalInterval)
		if next > int64(now)+refusalBurst*int64(refusalInterval) {
			g.suppressed.Add(1)
			return 0, false
		}
		if g.settled.CompareAndSwap(settled, next) {
			return g.suppressed.Swap(0), true
		}
	}
}
