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
// another than that of the one before.
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
	moved := !b.ownBudget && !equalBudgets(old.budgets, next.budgets)
	if moved {
		if next.keys, err = old.keysFor(next, &r.handing); err != nil {
			return err
		}
	} else {
		next.budget, next.keys = old.budget, old.keys
	}
	built := next.mode
	for {
		if next.mode = built; built == old.built {
			next.mode = old.mode
		}
		if r.config.CompareAndSwap(old, next) {
			break
		}
		old = r.config.Load() // SetMode was faster
	}
	if moved {
		next.keys.each(func(n *node[*key]) bool {
			n.value.takeOver()
			return true
		})
		next.keys.common.Load().value.takeOver()
	}
	next.keys.limit.Store(int64(b.maxKeys)) // not sooner: what may be dropped shows when it has its tokens
	return nil
}

func equalBudgets(a, b []*retrybudgetv1.Budget) bool {
	return slices.EqualFunc(a, b, func(a, b *retrybudgetv1.Budget) bool { return proto.Equal(a, b) })
}

// keysFor returns the key table of next, whose keys take over from those of c.
// mu orders the taking over.
func (c *config) keysFor(next *config, mu *sync.Mutex) (*table[*key], error) {
	keys, err := newKeys(next.budget, mostMaxKeys)
	if err != nil {
		return nil, err
	}
	heirs := heirsOf(c.budgets, next.budgets)
	common, before := keys.common.Load(), c.keys.common.Load()
	common.value.follow(before.value, heirs, mu)
	common.used.Store(min(before.used.Load(), 1))
	c.keys.each(func(n *node[*key]) bool {
		var fresh Budget
		if fresh, err = next.budget(n.target, n.name); err != nil {
			return false
		}
		k := &key{budget: fresh}
		k.follow(n.value, heirs, mu)
		keys.add(n.target, n.name, k)
		return true
	})
	return keys, err
}

// succession is what a key takes over, and from whom.
type succession struct {
	from  *key
	heirs []int       // see heirsOf
	mu    *sync.Mutex // of all takeovers
}

// follow makes k the successor of an old key: it knows what that one knew, and
// its budget holds nothing before it takes over. Nobody uses k yet.
func (k *key) follow(old *key, heirs []int, mu *sync.Mutex) {
	k.latency.copyFrom(&old.latency)
	k.declared.Store(old.declared.Load())
	k.warned.Store(old.warned.Load())
	k.pending.Store(&succession{old, heirs, mu})
	for i, part := range partsOf(k.budget) {
		if heirs[i] >= 0 {
			part.(heir).empty() //nolint:errcheck,forcetypeassert // a Config makes no others
		}
	}
}

// takeOver moves what the budget of the key before holds into that of k, once.
// Whoever asks k for a retry, or shows its level, does it first.
func (k *key) takeOver() {
	s := k.pending.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.pending.Load() == nil {
		return
	}
	before := partsOf(s.from.budget)
	for i, part := range partsOf(k.budget) {
		if j := s.heirs[i]; j >= 0 {
			part.(heir).inherit(before[j]) //nolint:errcheck,forcetypeassert // a Config makes no others
		}
	}
	k.pending.Store(nil)
}
