package retrybudget

import (
	"fmt"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// budgets returns the factory of a list of budgets, nil for an empty one.
func (c *checker) budgets(list []*retrybudgetv1.Budget) BudgetFactory {
	var all BudgetFactory
	for i, m := range list {
		path := fmt.Sprintf("budgets[%d]", i)
		if _, ok := m.GetKind().(*retrybudgetv1.Budget_Unlimited); ok {
			c.unlimited(path, m, len(list))
			return Unlimited()
		}
		errs := len(c.errs)
		kind := c.budget(path, m)
		if len(c.errs) > errs {
			continue
		}
		next := c.scope(path+".scope", m.GetScope(), kind)
		if all == nil {
			all = next
		} else {
			all = Both(all, next)
		}
	}
	return all
}

func (c *checker) unlimited(path string, m *retrybudgetv1.Budget, of int) {
	if m.GetScope() != retrybudgetv1.Scope_SCOPE_UNSPECIFIED {
		c.fail(path+".scope", "means nothing for an unlimited budget")
	}
	if of > 1 {
		c.fail(path+".unlimited", "is of no use beside another budget")
	}
}

// budget converts the kind of a budget.
func (c *checker) budget(path string, m *retrybudgetv1.Budget) BudgetConfig {
	switch kind := m.GetKind().(type) {
	case *retrybudgetv1.Budget_Adaptive:
		return c.adaptive(path+".adaptive", kind.Adaptive)
	case *retrybudgetv1.Budget_Throttle:
		return c.throttle(path+".throttle", kind.Throttle)
	default:
		return c.tokenBucket(path+".token_bucket", m.GetTokenBucket())
	}
}

func (c *checker) tokenBucket(path string, m *retrybudgetv1.TokenBucket) BudgetConfig {
	if m == nil {
		return TokenBucketConfig{}
	}
	cfg := TokenBucketConfig{
		Capacity: c.count(path+".capacity", m.Capacity, maxCapacity),
		Ratio:    c.ratio(path+".ratio", m.Ratio, 1),
	}
	capacity := uint32(cfg.Capacity)
	if capacity == 0 {
		capacity = defaultCapacity
	}
	if m.GetInitial() > capacity {
		c.fail(path+".initial", "%d is above capacity %d", m.GetInitial(), capacity)
	} else {
		cfg.Initial = int(m.GetInitial())
	}
	return cfg
}

func (c *checker) adaptive(path string, m *retrybudgetv1.AdaptiveBudget) BudgetConfig {
	if m == nil {
		return AdaptiveConfig{}
	}
	leak := c.positive(path+".leak", m.GetLeak())
	return AdaptiveConfig{
		Reserve: c.count(path+".reserve", m.Reserve, maxReserve),
		Ratio:   c.ratio(path+".ratio", m.Ratio, 1),
		Leak:    c.within(path+".leak", leak, minLeak, maxLeak),
	}
}

func (c *checker) throttle(path string, m *retrybudgetv1.Throttle) BudgetConfig {
	switch n := m.GetMaxTokens(); {
	case m == nil || m.MaxTokens == nil:
		c.fail(path+".max_tokens", "is missing")
	case n == 1 || n == 2:
		c.fail(path+".max_tokens", "%d can never grant a retry: one failure leaves no more than half of it; the least is %d", n, minThrottleTokens)
	case n < minThrottleTokens || n > maxThrottleTokens:
		c.fail(path+".max_tokens", "%d is not in %d..%d", n, minThrottleTokens, maxThrottleTokens)
	}
	if m == nil || m.TokenRatio == nil {
		c.fail(path+".token_ratio", "is missing")
		return ThrottleConfig{}
	}
	return ThrottleConfig{MaxTokens: int(m.GetMaxTokens()), TokenRatio: c.ratio(path+".token_ratio", m.TokenRatio, maxTokenRatio)}
}

// scope returns the factory that shares budgets of cfg, which is valid.
func (c *checker) scope(path string, s retrybudgetv1.Scope, cfg BudgetConfig) BudgetFactory {
	switch s {
	case retrybudgetv1.Scope_SCOPE_UNSPECIFIED, retrybudgetv1.Scope_SCOPE_PER_METHOD:
	case retrybudgetv1.Scope_SCOPE_PER_SERVICE:
		return PerService(cfg)
	case retrybudgetv1.Scope_SCOPE_PER_TARGET:
		return PerTarget(cfg)
	case retrybudgetv1.Scope_SCOPE_SHARED:
		b, err := newBudget(cfg)
		c.check(path, err)
		return Shared(b)
	default:
		c.fail(path, "%d is not a known scope", s)
	}
	return PerMethod(cfg)
}
