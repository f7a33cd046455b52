package prometheus

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// table is a bounded map from (target, method) to series. Reading takes no lock
// and allocates nothing: buckets are lists that only grow at their head, under mu.
type table struct {
	limit   int
	seed    maphash.Seed
	buckets [256]atomic.Pointer[entry]
	other   *series // of what found no room
	full    atomic.Bool

	mu   sync.Mutex
	size int
	// byNames has all series. Different method names can have the same labels,
	// and a series must not be shown twice.
	byNames map[names]*series
}

type entry struct {
	target, method string
	series         *series
	next           *entry
}

func newTable(limit int) *table {
	o := &series{names: other}
	return &table{limit: limit, seed: maphash.MakeSeed(), other: o, byNames: map[names]*series{other: o}}
}

// get returns the series of a method, made on first use, or that of all methods
// without room.
func (t *table) get(target, method string) *series {
	head := &t.buckets[maphash.String(t.seed, method)%uint64(len(t.buckets))]
	for e := head.Load(); e != nil; e = e.next {
		if e.method == method && e.target == target {
			return e.series
		}
	}
	if t.full.Load() || len(method) > longestMethod {
		return t.other
	}
	return t.add(head, target, method)
}

func (t *table) add(head *atomic.Pointer[entry], target, method string) *series {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := head.Load(); e != nil; e = e.next {
		if e.method == method && e.target == target {
			return e.series // another goroutine was first
		}
	}
	if t.size >= t.limit {
		return t.other
	}
	t.size++
	t.full.Store(t.size == t.limit)
	n := namesOf(target, method)
	s := t.byNames[n]
	if s == nil {
		s = &series{names: n}
		t.byNames[n] = s
	}
	head.Store(&entry{target, method, s, head.Load()})
	return s
}

// series returns all series, in no order.
func (t *table) series() []*series {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byNames))
}
