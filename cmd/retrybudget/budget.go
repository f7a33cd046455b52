package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrybudget/retrybudget"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// allowance is one of the budgets that retries are drawn from, with the library's
// defaults filled in. Its JSON form is part of the command's interface.
type allowance struct {
	Kind    string  `json:"kind"`            // token_bucket, adaptive, throttle, unlimited
	Scope   string  `json:"scope,omitempty"` // who shares it; none for unlimited
	Source  string  `json:"source"`          // where it is stated
	Full    float64 `json:"full,omitempty"`  // the most retries at once, when it is full
	Initial float64 `json:"initial"`         // retries that it grants before any call succeeded
	Ratio   float64 `json:"ratio,omitempty"` // what a successful call deposits
}

// libraryBudget is the source of the budget of a configuration without one.
const libraryBudget = "the library's default"

// allowances returns the budgets of a file, in its order.
func (f *input) allowances() ([]allowance, error) {
	list := f.cfg.GetBudgets()
	if len(list) == 0 {
		a, err := allowanceOf(&retrybudgetv1.Budget{})
		a.Source = libraryBudget
		return []allowance{a}, err
	}
	var all []allowance
	for i, b := range list {
		a, err := allowanceOf(b)
		if err != nil {
			return nil, err
		}
		path := f.budgetPath(i)
		a.Source = fmt.Sprintf("%s (%s:%d)", path, f.name, f.line(path))
		all = append(all, a)
	}
	return all, nil
}

func (f *input) budgetPath(i int) string {
	if f.kind == serviceConfig {
		return "retryThrottling"
	}
	return fmt.Sprintf("budgets[%d]", i)
}

func allowanceOf(b *retrybudgetv1.Budget) (a allowance, err error) {
	scope := b.GetScope()
	if scope == retrybudgetv1.Scope_SCOPE_UNSPECIFIED {
		scope = retrybudgetv1.Scope_SCOPE_PER_METHOD
	}
	a.Scope = enumName(scope.String(), "SCOPE_")
	switch k := b.GetKind().(type) {
	case *retrybudgetv1.Budget_Unlimited:
		return allowance{Kind: "unlimited"}, nil
	case *retrybudgetv1.Budget_Throttle:
		a.Kind = "throttle"
		err = a.throttle(k.Throttle)
	case *retrybudgetv1.Budget_Adaptive:
		a.Kind = "adaptive"
		err = a.adaptive(k.Adaptive)
	default:
		a.Kind = "token_bucket"
		err = a.tokenBucket(b.GetTokenBucket())
	}
	return a, err
}

func (a *allowance) tokenBucket(m *retrybudgetv1.TokenBucket) error {
	b, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{
		Capacity: int(m.GetCapacity()), Ratio: m.GetRatio(), Initial: int(m.GetInitial()),
	})
	if err != nil {
		return err
	}
	a.Initial, a.Full = b.Level()
	empty, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{Ratio: m.GetRatio()})
	if err != nil {
		return err
	}
	a.Ratio = deposit(empty)
	return nil
}

func (a *allowance) adaptive(m *retrybudgetv1.AdaptiveBudget) error {
	b, err := retrybudget.NewAdaptiveBudget(retrybudget.AdaptiveConfig{
		Reserve: int(m.GetReserve()), Ratio: m.GetRatio(), Leak: m.GetLeak().AsDuration(),
	})
	if err != nil {
		return err
	}
	a.Initial, _ = b.Level()
	// The leak between the two looks at it is a tiny part of the reserve's own size.
	slow, err := retrybudget.NewAdaptiveBudget(retrybudget.AdaptiveConfig{Ratio: m.GetRatio(), Leak: time.Hour})
	if err != nil {
		return err
	}
	a.Ratio = deposit(slow)
	return nil
}

func (a *allowance) throttle(m *retrybudgetv1.Throttle) error {
	b, err := retrybudget.NewThrottle(retrybudget.ThrottleConfig{MaxTokens: int(m.GetMaxTokens()), TokenRatio: m.GetTokenRatio()})
	if err != nil {
		return err
	}
	for b.RecordFailure(retrybudget.Cause{}); b.TryTake(retrybudget.Cause{}); b.RecordFailure(retrybudget.Cause{}) {
		a.Full++
	}
	a.Initial, a.Ratio = a.Full, m.GetTokenRatio()
	return nil
}

// leveled is a budget that shows its level.
type leveled interface {
	retrybudget.Budget
	retrybudget.LevelReporter
}

// deposit returns what a success adds to b, in thousandths of a token.
func deposit(b leveled) float64 {
	before, _ := b.Level()
	b.RecordSuccess()
	after, _ := b.Level()
	return thousandths(after - before)
}

// String describes it in a few words.
func (a allowance) String() string {
	kind := strings.ReplaceAll(a.Kind, "_", " ")
	shared := strings.ReplaceAll(a.Scope, "_", " ")
	if a.Scope == "shared" {
		shared = "shared by all calls"
	}
	switch a.Kind {
	case "unlimited":
		return "unlimited: every retry is granted"
	case "adaptive":
		return fmt.Sprintf("%s %s: reserve %v, +%v a success, what is above the reserve leaks away", kind, shared, a.Initial, a.Ratio)
	case "throttle":
		return fmt.Sprintf("%s %s: at most %v retries in a row of failures, +%v a success", kind, shared, a.Full, a.Ratio)
	default:
		return fmt.Sprintf("%s %s: at most %v tokens, +%v a success, %v at the start", kind, shared, a.Full, a.Ratio, a.Initial)
	}
}

// enumName returns the name of an enum value as files have it.
func enumName(name, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(name, prefix))
}

func thousandths(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }
