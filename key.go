package retrybudget

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// key is what the calls of one method to one target share.
type key struct {
	budget  Budget
	latency latency
	// settings caches the policy of the method, for the configuration it names.
	settings atomic.Pointer[settings]
	// declared is what the method's descriptor says; nil before it was asked.
	declared atomic.Pointer[declaration]
	// resolved caches the policy that the resolver gave the method last.
	resolved atomic.Pointer[resolvedPolicy]
	// pending is what is still to be taken over from the key before, nil for
	// nothing.
	pending atomic.Pointer[succession]
	events  atomic.Uint32 // what has happened, see below
	// common is true for the one key of all names without room: nothing that
	// belongs to a single method is kept in it.
	common bool
}

// What can have happened to a key, as bits.
const (
	keyWarned  = 1 << iota // a native retry policy was reported
	keyDropped             // the table made room; the name has another key now
)

// had reports whether something has happened.
func (k *key) had(event uint32) bool { return k.events.Load()&event != 0 }

// policy returns the settings of method under cfg.
func (k *key) policy(cfg *config, method string) *settings {
	if s := k.settings.Load(); s != nil && s.cfg == cfg {
		return s
	}
	s := cfg.policy(method, k.declaration(method))
	if !k.common {
		k.settings.Store(s)
	}
	return s
}

// declaration returns what the method's descriptor says. It is asked once per
// method: descriptors do not change while a program runs.
func (k *key) declaration(method string) *declaration {
	if k.common {
		return declarationOf(method)
	}
	d := k.declared.Load()
	if d == nil {
		d = declarationOf(method)
		k.declared.Store(d)
	}
	return d
}

// newKeys returns a key table for what factory makes. Asked here, the factory shows
// its errors before the first call, and names that find no room later have a
// budget to share.
func newKeys(factory BudgetFactory, limit int) (*table[*key], error) {
	common, err := factory("", "")
	if err == nil && common == nil {
		err = errNilBudget
	}
	if err != nil {
		return nil, fmt.Errorf("retrybudget: WithBudget: %s", strings.TrimPrefix(err.Error(), "retrybudget: "))
	}
	keys := newTable(limit, keyHoldsNoLess)
	keys.dropped = func(k *key) { k.events.Or(keyDropped) }
	keys.overflow(&key{budget: common, common: true})
	keys.common.Load().used.Store(0) // nobody uses it yet
	return keys, nil
}

// keyHoldsNoLess applies holdsNoLess to the budgets of keys.
func keyHoldsNoLess(old, fresh *key) bool { return holdsNoLess(old.budget, fresh.budget) }

// keyOf returns the state of (target, method), made on first use. A factory that
// fails leaves the name to the common key; the first such failure is reported.
func (r *Retrier) keyOf(cfg *config, target, method string) *key {
	if n := cfg.keys.get(target, method); n != nil {
		return n.value
	}
	budget, err := cfg.budget(target, method)
	if err == nil && budget == nil {
		err = errNilBudget
	}
	if err != nil {
		if cfg.observer != nil && r.factoryFailed.CompareAndSwap(false, true) {
			cfg.observer.Warned(WarningEvent{Target: target, Method: method, Text: "no budget could be made, the common one is used: " + err.Error()})
		}
		return cfg.keys.overflow(nil).value
	}
	k := &key{budget: budget}
	if m := r.moving.Load(); m != nil && m.to == cfg.keys {
		m.meet(k, target, method)
	}
	return cfg.keys.add(target, method, k).value
}
