package retrybudget_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// Budgets of the same kind and scope keep what they held, scaled.
func TestUpdate_budgetsKeepTheirTokens(t *testing.T) {
	t.Parallel()
	const method, target = "scope: SCOPE_PER_METHOD", "scope: SCOPE_PER_TARGET"
	for name, test := range map[string]struct {
		before, after    string
		tokens, capacity float64 // before, half of it is there
	}{
		"unchanged":                {"token_bucket {capacity: 10 initial: 5}", "token_bucket {capacity: 10 initial: 5}", 5, 10},
		"smaller":                  {"token_bucket {capacity: 20 initial: 10}", "token_bucket {capacity: 9}", 4.5, 9},
		"larger":                   {"token_bucket {capacity: 9 initial: 5}", "token_bucket {capacity: 20}", 11.111, 20},
		"the same in other words":  {"token_bucket {capacity: 20 initial: 10}", method + " token_bucket {}", 10, 20},
		"another ratio":            {"token_bucket {capacity: 10 initial: 5}", "token_bucket {capacity: 10 ratio: 0.5 initial: 9}", 5, 10},
		"none at the start either": {"token_bucket {capacity: 10}", "token_bucket {capacity: 10 initial: 5}", 0, 10},
		"of the target":            {target + " token_bucket {capacity: 10 initial: 5}", target + " token_bucket {capacity: 20}", 10, 20},
		"of all":                   {"scope: SCOPE_SHARED token_bucket {capacity: 10 initial: 5}", "scope: SCOPE_SHARED token_bucket {capacity: 20}", 10, 20},
		"throttle":                 {"throttle {max_tokens: 10 token_ratio: 0.1}", "throttle {max_tokens: 30 token_ratio: 0.1}", 30, 30},
		"adaptive":                 {"adaptive {reserve: 4}", "adaptive {reserve: 10}", 10, 1_000_000_000},
		"adaptive, smaller":        {"adaptive {reserve: 10}", "adaptive {reserve: 4}", 4, 1_000_000_000},
		"another kind":             {"token_bucket {initial: 10}", "throttle {max_tokens: 10 token_ratio: 0.1}", 10, 10},
		"another scope":            {"token_bucket {initial: 10}", target + " token_bucket {initial: 3}", 3, 20},
		"limited":                  {"unlimited {}", "token_bucket {initial: 3}", 3, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := updatable(t, "budgets {"+test.before+"}")
				for _, m := range []string{"/a/a", "/a/b"} {
					callName(t.Context(), r, m, codes.NotFound) // so that it has a budget
				}

				update(t, r, "budgets {"+test.after+"}")

				for _, b := range budgetsOf(r) {
					assert.InDelta(t, test.tokens, b.Tokens, 0.0005, b.Method)
					assert.InDelta(t, test.capacity, b.Capacity, 0, b.Method)
				}
				assert.Len(t, budgetsOf(r), 2)
			})
		})
	}
}

func TestUpdate_severalBudgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const method, target = "budgets {token_bucket {capacity: 10 initial: 10}} ", "budgets {scope: SCOPE_PER_TARGET adaptive {reserve: 3}} "
		const policy = "default_policy {constant_backoff {}} "
		r := updatable(t, policy+method)
		require.Equal(t, 3, callName(t.Context(), r, "/a/a", codes.Unavailable))
		level := func() float64 { return budgetsOf(r)[0].Tokens }
		require.InDelta(t, 8, level(), 0)

		update(t, r, policy+target+method)
		assert.InDelta(t, 3, level(), 0, "the target's is new")
		require.Equal(t, 3, callName(t.Context(), r, "/a/a", codes.Unavailable))
		assert.InDelta(t, 1, level(), 0)

		update(t, r, policy+"budgets {token_bucket {capacity: 100}} "+target)
		assert.InDelta(t, 1, level(), 0)
		update(t, r, policy+"budgets {token_bucket {capacity: 100}}")
		assert.InDelta(t, 60, level(), 0)
	})
}

// An adaptive budget keeps its debt and what it has above the reserve.
func TestUpdate_adaptive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := updatable(t, "budgets {adaptive {reserve: 2}} default_policy {constant_backoff {} max_attempts: 9}")
		level := func() float64 { return budgetsOf(r)[0].Tokens }
		for range 100 {
			callName(t.Context(), r, "/a/a", codes.OK)
		}
		require.InDelta(t, 12, level(), 0)
		update(t, r, "budgets {adaptive {reserve: 5}} default_policy {constant_backoff {} max_attempts: 99 idempotency: IDEMPOTENCY_IDEMPOTENT}")
		require.InDelta(t, 15, level(), 0)

		callName(t.Context(), r, "/a/a", codes.DeadlineExceeded) // 1.5 each, down to a debt
		require.InDelta(t, 0, level(), 0)
		callName(t.Context(), r, "/a/a", codes.OK)
		update(t, r, "budgets {adaptive {reserve: 2}}")
		assert.InDelta(t, 0.04, level(), 0)
	})
}

// Names that find no room share a budget, whose tokens stay too.
func TestUpdate_commonBudget(t *testing.T) {
	t.Parallel()
	r := updatable(t, "budgets {token_bucket {capacity: 10 initial: 10}} limits {max_keys: 1} default_policy {constant_backoff {}}")
	for _, m := range []string{"/a/a", "/b/b"} {
		require.Equal(t, 3, callName(t.Context(), r, m, codes.Unavailable))
	}

	update(t, r, "budgets {token_bucket {capacity: 20 initial: 20}} limits {max_keys: 1}")

	assert.Equal(t, []retrybudget.BudgetInfo{{Tokens: 16, Capacity: 20}, {Method: "/a/a", Tokens: 16, Capacity: 20}}, budgetsOf(r))
}

// Tokens are moved, never made: however often budgets are replaced, there are no
// more retries than what was there at the start and what calls earned.
func TestUpdate_makesNoTokens(t *testing.T) {
	t.Parallel()
	const initial, capacity = 300, 100_000
	for name, scope := range map[string]string{"method": "SCOPE_PER_METHOD", "target": "SCOPE_PER_TARGET", "all": "SCOPE_SHARED"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := func(i int) string {
				return fmt.Sprintf(`default_policy {max_attempts: 2 constant_backoff {}} budgets {scope: %s token_bucket {capacity: %d initial: %d ratio: 0.%d}}`, scope, capacity, initial, 1+i%2)
			}
			r := updatable(t, config(0))
			callName(t.Context(), r, "/a/a", codes.NotFound)
			var successes, retries atomic.Int64
			var stop atomic.Bool
			parallel(9, func(g int) {
				if g == 0 {
					for i := range 300 {
						update(t, r, config(i))
					}
					stop.Store(true)
					return
				}
				for i := 0; !stop.Load(); i++ {
					if (g+i)%5 == 0 {
						callName(t.Context(), r, "/a/a", codes.OK)
						successes.Add(1)
						continue
					}
					retries.Add(int64(callName(t.Context(), r, "/a/a", codes.Unavailable)) - 1)
				}
			})
			tokens := budgetsOf(r)[0].Tokens
			most := initial + 0.2*float64(successes.Load())
			assert.LessOrEqual(t, float64(retries.Load())+tokens, most+0.001)
			assert.GreaterOrEqual(t, retries.Load(), int64(initial)*9/10, "and few get lost")
		})
	}
}
