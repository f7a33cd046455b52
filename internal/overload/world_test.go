package overload_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/overload"
)

func run(t *testing.T, s overload.Scenario, with overload.Strategy, seed uint64) *overload.Result {
	t.Helper()
	var r *overload.Result
	synctest.Test(t, func(t *testing.T) {
		var err error
		r, err = overload.Run(t.Context(), s, with, seed)
		require.NoError(t, err)
	})
	return r
}

// TestWorld_sameFatesForAllStrategies: what a strategy does must not change the
// calls that are made or which first attempts fail.
func TestWorld_sameFatesForAllStrategies(t *testing.T) {
	t.Parallel()
	size := overload.Size{Warmup: time.Second, Failures: 500, Longest: 3 * time.Second}
	scenario := overload.RandomErrors(size, 0.2)
	want := run(t, scenario, overload.NoRetries(), 7)
	_, failed := want.Masked(0)
	require.Positive(t, failed)
	for _, with := range []overload.Strategy{overload.NoRetries(), overload.TokenBucket(), overload.Adaptive(), overload.Unlimited()} {
		got := run(t, scenario, with, 7)
		for n := range 4 {
			wantCalls, _, _ := want.Second(n)
			calls, _, _ := got.Second(n)
			assert.Equal(t, wantCalls, calls, "%s, second %d", with.Name, n)
		}
		_, gotFailed := got.Masked(0)
		assert.Equal(t, failed, gotFailed, with.Name)
	}
	_, other := run(t, scenario, overload.NoRetries(), 8).Masked(0)
	assert.NotEqual(t, failed, other, "the seed changes nothing")
}

// TestWorld_trafficAndErrorsAreWhatTheyAreSaidToBe bounds rates by five standard
// deviations.
func TestWorld_trafficAndErrorsAreWhatTheyAreSaidToBe(t *testing.T) {
	t.Parallel()
	size := overload.Size{Failures: 1_000_000, Longest: 10 * time.Second}
	r := run(t, overload.RandomErrors(size, 0.2), overload.NoRetries(), 3)
	calls := 0
	for n := range 10 {
		c, _, attempts := r.Second(n)
		assert.Equal(t, c, attempts, "second %d", n)
		calls += c
	}
	assert.InDelta(t, 8_000, calls, 5*89)
	_, failed := r.Masked(0)
	assert.InDelta(t, 0.2*float64(calls), failed, 5*36)
	assert.InDelta(t, 0.8, r.Availability(), 5*0.0045)
}

// audit grants everything and keeps books.
type audit struct {
	mu                       sync.Mutex
	open                     map[retrybudget.Cause]int
	granted, settled, missed int
}

func (a *audit) RecordSuccess()                  {}
func (a *audit) RecordFailure(retrybudget.Cause) {}

func (a *audit) TryTake(c retrybudget.Cause) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.granted++
	a.open[c]++
	return true
}

func (a *audit) Settle(c retrybudget.Cause, _ retrybudget.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled++
	a.open[c]--
	if a.open[c] < 0 {
		a.missed++
	}
}

// TestWorld_everyGrantIsSettledOnce: by success, failure, timeout or because the
// other budget refused, under load and with the cause it was granted for.
func TestWorld_everyGrantIsSettledOnce(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]retrybudget.BudgetConfig{
		"TokenBucket":    retrybudget.TokenBucketConfig{},
		"AdaptiveBudget": retrybudget.AdaptiveConfig{},
		"Throttle":       retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			books := &audit{open: map[retrybudget.Cause]int{}}
			scenario := overload.Overload(overload.Size{Warmup: 2 * time.Second})
			scenario.Fault, scenario.Fail = 3*time.Second, []float64{0.05}
			run(t, scenario, overload.Strategy{Budget: func() retrybudget.BudgetFactory {
				return retrybudget.Both(retrybudget.Shared(books), retrybudget.PerMethod(cfg))
			}}, 1)
			assert.Greater(t, books.granted, 100)
			assert.Equal(t, books.granted, books.settled)
			assert.Zero(t, books.missed, "settled with another cause, or twice")
			for cause, n := range books.open {
				assert.Zero(t, n, "not settled: %+v", cause)
			}
		})
	}
}
