package retrybudget

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// Update gives the Retrier another configuration while calls are under way: cfg
// takes the place of what [WithConfig] or the last Update said, and the other
// options of [New] go on to outrank it. Package config watches a file for it.
//
// All of cfg is used or, on an error, which is that of WithConfig, none of it. A
// call keeps the policy that it started with.
//
// Where the budgets of cfg are those of before, they are left alone. Otherwise
// every budget keeps what it held, scaled: a token bucket or throttle that was
// half full is half full, an adaptive budget keeps its part of the reserve and all
// that it has above it. This goes by kind and scope: a budget of a kind or a scope
// that was not there before starts as after New. Retries are never paid for twice:
// what comes back of a price, or is earned, by a call that started before goes to
// the old budget and is lost.
//
// The mode of [Retrier.SetMode] stays until a configuration comes whose mode is
// another than that of the one before. What cfg says about the server side is for
// [WithServerConfig] and not looked at here.
//
// It is safe for concurrent use. cfg is read and not kept.
func (r *Retrier) Update(cfg *retrybudgetv1.Config) error {
	r.updating.Lock()
	defer r.updating.Unlock()
	b, err := build(append([]Option{WithConfig(cfg)}, r.opts...))
	if err != nil {
		return err
	}
	next, old := &b.cfg, r.config.Load()
	if b.ownBudget || equalBudgets(old.budgets, next.budgets) {
		next.budget, next.keys = old.budget, old.keys
		r.swap(old, next)
	} else if err := r.move(old, next); err != nil {
		return err
	}
	next.keys.limit.Store(int64(b.maxKeys)) // not sooner: what may be dropped shows when it has its tokens
	return nil
}

// swap puts next in the place of old. Only SetMode can be faster.
func (r *Retrier) swap(old, next *config) {
	for built := next.mode; ; old = r.config.Load() {
		if next.mode = built; built == old.built {
			next.mode = old.mode
		}
		if r.config.CompareAndSwap(old, next) {
			return
		}
	}
}

func equalBudgets(a, b []*retrybudgetv1.Budget) bool {
	return slices.EqualFunc(a, b, func(a, b *retrybudgetv1.Budget) bool { return proto.Equal(a, b) })
}

// move swaps configurations whose budgets differ. The keys of next take over from
// those of old.
func (r *Retrier) move(old, next *config) (err error) {
	if next.keys, err = newKeys(next.budget, mostMaxKeys); err != nil {
		return err
	}
	m := &move{from: old.keys, to: next.keys, heirs: heirsOf(old.budgets, next.budgets), emptied: map[Budget]bool{}}
	common, before := next.keys.common.Load(), old.keys.common.Load()
	m.follow(common.value, before.value)
	common.used.Store(min(before.used.Load(), 1))
	r.moving.Store(m)
	follow := func(n *node[*key]) bool {
		r.keyOf(next, n.target, n.name)
		return true
	}
	old.keys.each(follow)
	r.swap(old, next)
	old.keys.each(follow) // those that came meanwhile
	next.keys.each(func(n *node[*key]) bool {
		n.value.takeOver()
		return true
	})
	common.value.takeOver()
	r.moving.Store(nil)
	return nil
}

// move is one key table taking the place of another while calls go on.
type move struct {
	from, to *table[*key]
	heirs    []int // see heirsOf

	mu      sync.Mutex // guards emptied and orders the taking over
	emptied map[Budget]bool
}

// meet makes k, which is to be added under (target, name), the successor of the
// key that had the name before, if there is one.
func (m *move) meet(k *key, target, name string) {
	if n := m.from.find(target, name); n != nil {
		m.follow(k, n.value)
	}
}

// follow makes k the successor of an old key: it knows what that one knew, and
// its budget holds nothing before it takes over. Nobody uses k yet, but others may
// use a budget that they share with it.
func (m *move) follow(k, old *key) {
	k.latency.copyFrom(&old.latency)
	k.declared.Store(old.declared.Load())
	k.events.Store(old.events.Load() & keyWarned)
	k.pending.Store(&succession{old, m})
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, part := range partsOf(k.budget) {
		if m.heirs[i] >= 0 && !m.emptied[part] {
			m.emptied[part] = true
			part.(heir).empty() //nolint:errcheck,forcetypeassert // a Config makes no others
		}
	}
}

// succession is whom a key takes over from.
type succession struct {
	from *key
	move *move
}

// takeOver moves what the budget of the key before holds into that of k, once.
// Whoever asks k for a retry, or shows its level, does it first.
func (k *key) takeOver() {
	s := k.pending.Load()
	if s == nil {
		return
	}
	s.move.mu.Lock()
	defer s.move.mu.Unlock()
	if k.pending.Load() == nil {
		return
	}
	before := partsOf(s.from.budget)
	for i, part := range partsOf(k.budget) {
		if j := s.move.heirs[i]; j >= 0 {
			part.(heir).inherit(before[j]) //nolint:errcheck,forcetypeassert // a Config makes no others
		}
	}
	k.pending.Store(nil)
}
