package retrybudget

import (
	"errors"
	"strings"
)

// BudgetFactory says which calls share a budget: it returns the [Budget] of a
// target (the string given to grpc.NewClient) and a full method name
// ("/pkg.Service/Method"). It runs once for each pair that is called, not once
// per call, possibly from several goroutines at a time; the same budget may be
// returned for many pairs. [New] also calls it once with two empty strings: that
// budget serves all names that find no room in the key table ([WithMaxKeys]).
//
// The factories of this package are [PerMethod] (the default, of the zero
// [TokenBucketConfig]), [PerService], [PerTarget], [Shared], [Both], [Adaptive]
// and [Unlimited].
type BudgetFactory func(target, method string) (Budget, error)

// PerMethod gives every method of every target a budget of its own, so that one
// failing method cannot eat the retries of the others.
func PerMethod(cfg BudgetConfig) BudgetFactory {
	return func(_, _ string) (Budget, error) { return newBudget(cfg) }
}

// PerService gives every service of every target one budget, shared by the
// service's methods. The budgets belong to the factory: passed to several
// Retriers, it is one allowance for all of them. It keeps 1,024 of them; see
// [WithMaxKeys] for what happens to more.
func PerService(cfg BudgetConfig) BudgetFactory {
	shared := newTable(defaultMaxKeys, holdsNoLess)
	return func(target, method string) (Budget, error) {
		service := method
		if i := strings.LastIndexByte(method, '/'); i >= 0 {
			service = method[:i+1]
		}
		return sharedBudget(shared, cfg, target, service)
	}
}

// PerTarget gives every target one budget, shared by all methods called there.
// The budgets belong to the factory, as with [PerService].
func PerTarget(cfg BudgetConfig) BudgetFactory {
	shared := newTable(defaultMaxKeys, holdsNoLess)
	return func(target, _ string) (Budget, error) {
		return sharedBudget(shared, cfg, target, "")
	}
}

// Shared gives the one budget b to every call. Passed to several Retriers it
// is one allowance for all of them.
func Shared(b Budget) BudgetFactory {
	return func(_, _ string) (Budget, error) { return b, nil }
}

// Unlimited grants every retry. It takes away the protection that this library
// is for and must be asked for by name: a controlled experiment, or a caller
// whose retries something else already bounds.
func Unlimited() BudgetFactory { return Shared(unlimited{}) }

// Both makes every retry pay in two budgets or in neither, say one per method
// and one per target. The level it reports is the smaller of the two.
func Both(first, second BudgetFactory) BudgetFactory {
	return func(target, method string) (Budget, error) {
		if first == nil || second == nil {
			return nil, errors.New("retrybudget: Both: nil BudgetFactory")
		}
		a, err := first(target, method)
		if err != nil {
			return nil, err
		}
		b, err := second(target, method)
		if err != nil {
			return nil, err
		}
		if a == nil || b == nil {
			return nil, errNilBudget
		}
		return &both{a, b}, nil
	}
}

var errNilBudget = errors.New("retrybudget: BudgetFactory returned a nil Budget")

func newBudget(cfg BudgetConfig) (Budget, error) {
	if cfg == nil {
		return nil, errors.New("retrybudget: BudgetConfig is nil")
	}
	b, err := cfg.NewBudget()
	if err == nil && b == nil {
		return nil, errNilBudget
	}
	return b, err
}

// sharedBudget returns the budget under (target, name), made on first use. When
// the table is full of budgets that hold less than a new one would, the name
// gets the table's common one.
func sharedBudget(t *table[Budget], cfg BudgetConfig, target, name string) (Budget, error) {
	if n := t.get(target, name); n != nil {
		return n.value, nil
	}
	fresh, err := newBudget(cfg)
	if err != nil {
		return nil, err
	}
	return t.add(target, name, fresh).value, nil
}

// both is the budget of [Both].
type both struct{ first, second Budget }

func (b *both) RecordSuccess() {
	b.first.RecordSuccess()
	b.second.RecordSuccess()
}

func (b *both) RecordFailure(c Cause) {
	b.first.RecordFailure(c)
	b.second.RecordFailure(c)
}

func (b *both) TryTake(c Cause) bool {
	if !b.first.TryTake(c) {
		return false
	}
	if !b.second.TryTake(c) {
		b.first.Settle(c, Refused)
		return false
	}
	return true
}

func (b *both) Settle(c Cause, o Outcome) {
	b.first.Settle(c, o)
	b.second.Settle(c, o)
}

// level returns the smaller of the two levels and of the two capacities: what
// both together would grant. A part that reports none does not count.
func (b *both) level() (tokens, capacity float64, ok bool) {
	t1, c1, ok1 := levelOf(b.first)
	t2, c2, ok2 := levelOf(b.second)
	switch {
	case !ok1:
		return t2, c2, ok2
	case !ok2:
		return t1, c1, true
	default:
		return min(t1, t2), min(c1, c2), true
	}
}

// Level is level for those who wrap a budget of Both; see [LevelReporter].
func (b *both) Level() (tokens, capacity float64) {
	tokens, capacity, _ = b.level()
	return tokens, capacity
}
