package overload_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/overload"
)

// TestStall: a server that has 30 % of its capacity to spare stands still for a
// second. What comes of it is up to the clients' retries alone.
func TestStall(t *testing.T) {
	t.Parallel()
	shared := func(cfg retrybudget.BudgetConfig) overload.Strategy {
		return overload.Strategy{Budget: func() retrybudget.BudgetFactory { return retrybudget.PerTarget(cfg) }}
	}
	for _, tc := range []struct {
		name  string
		with  overload.Strategy
		burst int // the tokens it can hold at 70 calls a second
	}{
		{"TokenBucket", shared(retrybudget.TokenBucketConfig{Capacity: 10}), 10},
		{"AdaptiveBudget", shared(retrybudget.AdaptiveConfig{}), 2 + 14},
		{"Throttle", shared(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1}), 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			seconds := stall(t, tc.with)
			assert.Less(t, seconds[10].good, 35, "the stall does no harm, so surviving it proves nothing")
			for n, s := range seconds[11:] {
				assert.LessOrEqual(t, float64(s.attempts), 70*1.1+float64(tc.burst), "second %d", n+11)
			}
			for n, s := range seconds[25:] {
				assert.Equal(t, s.calls, s.good, "second %d", n+25)
			}
		})
	}
	t.Run("without a budget it never ends", func(t *testing.T) {
		t.Parallel()
		seconds := stall(t, overload.Unlimited())
		for n, s := range seconds[11:] {
			assert.Less(t, s.good, 35, "second %d", n+11)
		}
	})
}

type second struct{ calls, good, attempts int }

// stall lives through the world and returns its whole seconds.
func stall(t *testing.T, with overload.Strategy) []second {
	t.Helper()
	var seconds []second
	synctest.Test(t, func(t *testing.T) {
		s := overload.Stall()
		r, err := overload.Run(t.Context(), s, with, 1)
		require.NoError(t, err)
		for n := range int((s.Warmup + s.Fault + s.After).Seconds()) {
			var at second
			at.calls, at.good, at.attempts = r.Second(n)
			seconds = append(seconds, at)
		}
	})
	return seconds
}
