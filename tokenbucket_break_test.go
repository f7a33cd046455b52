package retrybudget_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
)

// besides runs f, and others in goroutines beside it until f returns.
func besides(f func(), others ...func()) {
	var done atomic.Bool
	parallel(len(others)+1, func(i int) {
		if i == 0 {
			defer done.Store(true)
			f()
			return
		}
		for !done.Load() {
			others[i-1]()
		}
	})
}

// A token that was deposited is there for the only one who takes any, whatever
// other deposits come while the bucket fills up.
func TestTokenBucketBreak_noDepositIsLost(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{1, 0.5} {
		b := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1, Ratio: ratio})
		lost, deposits := 0, int(1/ratio)
		besides(func() {
			for range 500_000 {
				succeed(b, deposits)
				if !b.TryTake(plain) {
					lost++
				}
			}
		}, b.RecordSuccess, b.RecordSuccess, b.RecordSuccess)
		assert.Zero(t, lost, "ratio %v", ratio)
	}
}

// The level that is shown is one that the budget had.
func TestBudgetsBreak_levelWasThere(t *testing.T) {
	t.Parallel()
	adaptive, err := retrybudget.NewAdaptiveBudget(retrybudget.AdaptiveConfig{Reserve: 1, Ratio: 1})
	require.NoError(t, err)
	for _, tt := range []struct {
		name string
		b    retrybudget.Budget
		most int64
	}{
		{"token bucket", newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 20, Ratio: 1}), 1000},
		{"adaptive", adaptive, 2000},
	} {
		wrong := 0
		besides(func() {
			for range 300_000 {
				if tokensIn(tt.b.(retrybudget.LevelReporter)) > tt.most { //nolint:errcheck // a panic fails the test
					wrong++
				}
			}
		}, func() {
			tt.b.RecordSuccess()
			tt.b.TryTake(plain)
		})
		assert.Zero(t, wrong, tt.name)
	}
}
