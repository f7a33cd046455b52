package retrybudget

import (
	"math/bits"
	"slices"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// heir is a budget that can go on with what another of its kind held.
type heir interface {
	Budget
	// empty takes all tokens away, before anybody uses the budget.
	empty()
	// inherit moves what before holds into this budget, scaled. before goes on to
	// be used; a second time moves what came in since.
	inherit(before Budget)
}

var (
	_ heir = (*TokenBucket)(nil)
	_ heir = (*Throttle)(nil)
	_ heir = (*AdaptiveBudget)(nil)
)

// heirsOf returns, for each of the budgets that a Config makes, the number of the
// one among those before that it goes on from, -1 for none: the first of its kind
// and scope that is not taken yet. Without a list there is one default budget.
func heirsOf(before, now []*retrybudgetv1.Budget) []int {
	type part struct {
		kind  string
		scope retrybudgetv1.Scope
	}
	parts := func(list []*retrybudgetv1.Budget) []part {
		var all []part
		for _, m := range list {
			all = append(all, part{kindOf(m), scopeOf(m)})
		}
		if all == nil {
			all = []part{{kindOf(nil), scopeOf(nil)}}
		}
		return all
	}
	old := parts(before)
	var heirs []int
	for _, p := range parts(now) {
		j := slices.Index(old, p)
		if p.kind == "" {
			j = -1
		}
		if j >= 0 {
			old[j] = part{} // taken
		}
		heirs = append(heirs, j)
	}
	return heirs
}

// kindOf returns the kind of a budget, "" for an unlimited one.
func kindOf(m *retrybudgetv1.Budget) string {
	switch m.GetKind().(type) {
	case *retrybudgetv1.Budget_Unlimited:
		return ""
	case *retrybudgetv1.Budget_Adaptive:
		return "adaptive"
	case *retrybudgetv1.Budget_Throttle:
		return "throttle"
	default:
		return "token bucket"
	}
}

func scopeOf(m *retrybudgetv1.Budget) retrybudgetv1.Scope {
	if s := m.GetScope(); s != retrybudgetv1.Scope_SCOPE_UNSPECIFIED {
		return s
	}
	return retrybudgetv1.Scope_SCOPE_PER_METHOD
}

// partsOf returns the budgets that b consists of, in the order of the Config.
func partsOf(b Budget) []Budget {
	if b, ok := b.(*both); ok {
		return append(partsOf(b.first), partsOf(b.second)...)
	}
	return []Budget{b}
}

func (b *TokenBucket) empty() { b.take(0, b.capacity) }

func (b *TokenBucket) inherit(before Budget) {
	old := before.(*TokenBucket) //nolint:errcheck,forcetypeassert // heirsOf goes by kind
	b.give(scaled(old.take(0, old.capacity), old.capacity, b.capacity))
}

func (t *Throttle) empty() { t.count.Store(0) }

func (t *Throttle) inherit(before Budget) {
	old := before.(*Throttle) //nolint:errcheck,forcetypeassert // heirsOf goes by kind
	t.add(scaled(old.count.Swap(0), old.maxTokens, t.maxTokens))
}

func (b *AdaptiveBudget) empty() { b.spent.Store(0) }

func (b *AdaptiveBudget) inherit(before Budget) {
	old := before.(*AdaptiveBudget) //nolint:errcheck,forcetypeassert // heirsOf goes by kind
	old.settle(old.now())
	for {
		spent := old.spent.Load()
		held := old.held(spent)
		if !old.spent.CompareAndSwap(spent, spent+uint64(held)) {
			continue
		}
		if held > old.reserve {
			held = b.reserve + held - old.reserve
		} else if held > 0 {
			held = scaled(held, old.reserve, b.reserve)
		}
		b.spent.Add(-uint64(held))
		return
	}
}

// scaled returns n·to/from, rounded down, for n in 0..from.
func scaled(n, from, to int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(to))
	q, _ := bits.Div64(hi, lo, uint64(from))
	return int64(q)
}
