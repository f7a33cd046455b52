package retrybudget

import (
	"cmp"
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
)

// defaultMaxKeys bounds every key table unless WithMaxKeys says otherwise: the
// method names that a proxy forwards are chosen by others.
const defaultMaxKeys = 1024

// table is a bounded map from (target, name) to a value. Reading takes no lock
// and allocates nothing: buckets are linked lists whose links are atomic, and
// only add and drop, under mu, change them.
//
// When it is full, add makes room by dropping the least recently used values
// that drop allows; if it allows none, the new name shares one common value.
// Recency is counted in additions, not in time: a reader stores the number of
// the last addition in what it read, so that the hot path writes only when
// something was added since.
type table[V any] struct {
	limit   atomic.Int64
	drop    func(old, fresh V) bool
	dropped func(old V) // told of each value dropped; may be nil
	seed    maphash.Seed
	added   atomic.Uint64
	common  atomic.Pointer[node[V]]
	buckets [256]atomic.Pointer[node[V]]
	// recent has one node for each length of name, modulo its own, that is
	// found without hashing: a program calls few methods.
	recent [64]atomic.Pointer[node[V]]

	mu   sync.Mutex // guards what follows, and every change of a link
	size int
	// full is how many names still go to the common value without a search for
	// room: one that found none is not worth repeating for each of them.
	full int
}

type node[V any] struct {
	target, name string
	value        V
	used         atomic.Uint64
	gone         atomic.Bool // it was dropped
	next         atomic.Pointer[node[V]]
}

func newTable[V any](limit int, drop func(old, fresh V) bool) *table[V] {
	t := &table[V]{drop: drop, seed: maphash.MakeSeed()}
	t.limit.Store(int64(limit))
	return t
}

func (t *table[V]) bucket(name string) *atomic.Pointer[node[V]] {
	return &t.buckets[maphash.String(t.seed, name)%uint64(len(t.buckets))]
}

// get returns the node of (target, name), or nil.
func (t *table[V]) get(target, name string) *node[V] {
	slot := &t.recent[len(name)%len(t.recent)]
	n := slot.Load()
	if n == nil || n.name != name || n.target != target {
		if n = t.find(target, name); n == nil {
			return nil
		}
		if slot.CompareAndSwap(nil, n) && n.gone.Load() {
			slot.CompareAndSwap(n, nil) // dropped meanwhile, and cleared too early
		}
	}
	if now := t.added.Load(); n.used.Load() != now {
		n.used.Store(now)
	}
	return n
}

func (t *table[V]) find(target, name string) *node[V] {
	for n := t.bucket(name).Load(); n != nil; n = n.next.Load() {
		if n.name == name && n.target == target {
			return n
		}
	}
	return nil
}

// successor returns the node that has the name of n, a node of another table, or n
// if there is none. That of the common node is the common node.
func (t *table[V]) successor(n *node[V]) *node[V] {
	if n.target == "" && n.name == "" {
		return t.common.Load()
	}
	if here := t.find(n.target, n.name); here != nil {
		return here
	}
	return n
}

// add puts fresh under (target, name) and returns its node; or the node that
// another goroutine put there first; or, when there is no room, the common one.
// drop runs without the lock, because it asks budgets that users wrote.
func (t *table[V]) add(target, name string, fresh V) *node[V] {
	for {
		n, others := t.tryAdd(target, name, fresh)
		if n != nil {
			return n
		}
		if !t.makeRoom(others, fresh) {
			return t.overflow(fresh)
		}
	}
}

// makeRoom drops the least recently used nodes that may be dropped for fresh, a
// sixteenth of the table at a time, since looking for them takes a walk through
// all. It reports false if there is none.
func (t *table[V]) makeRoom(nodes []*node[V], fresh V) bool {
	if len(nodes) == 0 {
		return false
	}
	slices.SortFunc(nodes, func(a, b *node[V]) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	most, dropped := max(1, int(t.limit.Load())/16), 0
	for _, n := range nodes {
		if dropped < most && t.drop(n.value, fresh) {
			t.remove(n)
			dropped++
		}
	}
	if dropped == 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.full = int(t.limit.Load())
	}
	return dropped > 0
}

// tryAdd adds a node if there is room and returns it, or the one that is there
// already. If there is no room it returns the nodes to choose a victim from,
// none when a search found no victim a short while ago.
func (t *table[V]) tryAdd(target, name string, fresh V) (*node[V], []*node[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.get(target, name); n != nil {
		return n, nil
	}
	if t.size >= int(t.limit.Load()) {
		if t.full > 0 {
			t.full--
			return nil, nil
		}
		nodes := make([]*node[V], 0, t.size)
		t.each(func(n *node[V]) bool {
			nodes = append(nodes, n)
			return true
		})
		return nil, nodes
	}
	n := &node[V]{target: target, name: name, value: fresh}
	n.used.Store(t.added.Add(1))
	head := t.bucket(name)
	n.next.Store(head.Load())
	head.Store(n)
	t.size++
	return n, nil
}

// remove unlinks n if it is still there. Readers that stand on it go on to its
// old successor.
func (t *table[V]) remove(n *node[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for link := t.bucket(n.name); link.Load() != nil; link = &link.Load().next {
		if link.Load() == n {
			link.Store(n.next.Load())
			t.size--
			t.full = 0
			n.gone.Store(true)
			t.recent[len(n.name)%len(t.recent)].CompareAndSwap(n, nil)
			if t.dropped != nil {
				t.dropped(n.value)
			}
			return
		}
	}
}

// overflow returns the node that all names without room share. The first fresh
// value to arrive becomes its value, unless one was set before.
func (t *table[V]) overflow(fresh V) *node[V] {
	t.common.CompareAndSwap(nil, &node[V]{value: fresh})
	n := t.common.Load()
	n.used.Store(t.added.Load() + 1)
	return n
}

// each calls yield for every node but the common one until it returns false.
func (t *table[V]) each(yield func(*node[V]) bool) {
	for i := range t.buckets {
		for n := t.buckets[i].Load(); n != nil; n = n.next.Load() {
			if !yield(n) {
				return
			}
		}
	}
}

// levelOf returns the level of a budget that reports one.
func levelOf(b Budget) (tokens, capacity float64, ok bool) {
	switch b := b.(type) {
	case *both:
		return b.level()
	case LevelReporter:
		tokens, capacity = b.Level()
		return tokens, capacity, true
	default:
		return 0, 0, false
	}
}

// holdsNoLess reports whether old may be dropped for fresh without refilling
// anything: its name, when it comes back, must find no more tokens than it left.
// A budget that keeps its level to itself is only dropped when the factory would
// hand out the very same one again.
func holdsNoLess(old, fresh Budget) bool {
	o, okOld := old.(*both)
	f, okFresh := fresh.(*both)
	if okOld && okFresh {
		return holdsNoLess(o.first, f.first) && holdsNoLess(o.second, f.second)
	}
	has, _, okOld := levelOf(old)
	would, _, okFresh := levelOf(fresh)
	if okOld && okFresh {
		return has >= would
	}
	return same(old, fresh)
}

// same reports whether a and b are one budget. User types need not be
// comparable, and comparing such values would panic.
func same(a, b Budget) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	return va.Comparable() && vb.Comparable() && a == b
}
