package retrybudget_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// The causes that budgets tell apart.
var (
	plain  = retrybudget.Cause{Code: codes.Unavailable, Attempt: 1}
	hinted = retrybudget.Cause{Code: codes.Unavailable, Attempt: 1, Exhausted: true}
)

func newTokenBucket(t testing.TB, cfg retrybudget.TokenBucketConfig) *retrybudget.TokenBucket {
	t.Helper()
	b, err := retrybudget.NewTokenBucket(cfg)
	require.NoError(t, err)
	return b
}

// tokensIn returns the level of a bucket in thousandths, which are exact.
func tokensIn(b retrybudget.LevelReporter) int64 {
	tokens, _ := b.Level()
	return int64(math.Round(tokens * 1000))
}

func succeed(b retrybudget.Budget, times int) {
	for range times {
		b.RecordSuccess()
	}
}

// takeAll takes until the budget refuses, at most limit times, and returns how
// often it granted.
func takeAll(b retrybudget.Budget, limit int) int {
	for n := range limit {
		if !b.TryTake(plain) {
			return n
		}
		b.Settle(plain, retrybudget.Failed)
	}
	return limit
}

func TestTokenBucketConfig_limits(t *testing.T) {
	t.Parallel()
	type config = retrybudget.TokenBucketConfig
	for _, tt := range []struct {
		cfg config
		err string // empty: accepted
	}{
		{config{}, ""},
		{config{Capacity: 1}, ""},
		{config{Capacity: 1_000_000_000}, ""},
		{config{Capacity: 1_000_000_001}, "Capacity 1000000001 is not in 1..1000000000"},
		{config{Capacity: -1}, "Capacity -1 is not in 1..1000000000"},
		{config{Capacity: math.MinInt}, "Capacity"},
		{config{Capacity: math.MaxInt}, "Capacity"},
		{config{Ratio: 0.001}, ""},
		{config{Ratio: 0.1}, ""},
		{config{Ratio: 0.15}, ""},
		{config{Ratio: 0.999}, ""},
		{config{Ratio: 1}, ""},
		{config{Ratio: 0.30000000000000004}, ""}, // 0.1 + 0.2
		{config{Ratio: 1.001}, "Ratio 1.001 is not in 0.001..1"},
		{config{Ratio: 2}, "Ratio 2 is not in 0.001..1"},
		{config{Ratio: -0.1}, "Ratio -0.1 is not in 0.001..1"},
		{config{Ratio: 0.0005}, "Ratio 0.0005 is not a whole number of thousandths"},
		{config{Ratio: 0.0015}, "Ratio 0.0015 is not a whole number of thousandths"},
		{config{Ratio: 0.1001}, "Ratio 0.1001 is not a whole number of thousandths"},
		{config{Ratio: 1.0 / 3}, "Ratio 0.3333333333333333 is not a whole number of thousandths"},
		{config{Ratio: math.SmallestNonzeroFloat64}, "Ratio"},
		{config{Ratio: math.NaN()}, "Ratio NaN is not in"},
		{config{Ratio: math.Inf(1)}, "Ratio +Inf is not in"},
		{config{Ratio: math.Inf(-1)}, "Ratio -Inf is not in"},
		{config{Initial: 20}, ""},
		{config{Initial: 21}, "Initial 21 is not in 0..Capacity (20)"},
		{config{Initial: -1}, "Initial -1 is not in 0..Capacity (20)"},
		{config{Capacity: 5, Initial: 5}, ""},
		{config{Capacity: 5, Initial: 6}, "Initial 6 is not in 0..Capacity (5)"},
		// The same answer beside other fields that are set.
		{config{Capacity: 100, Ratio: 0.0005, Initial: 10}, "Ratio 0.0005"},
		{config{Capacity: -1, Ratio: 0.5}, "Capacity -1"},
		{config{Capacity: 100, Ratio: 0.5, Initial: 101}, "Initial 101"},
	} {
		t.Run(fmt.Sprintf("%+v", tt.cfg), func(t *testing.T) {
			t.Parallel()
			b, err := retrybudget.NewTokenBucket(tt.cfg)
			made, errMade := tt.cfg.NewBudget()
			_, errNew := retrybudget.New(retrybudget.WithBudget(retrybudget.PerMethod(tt.cfg)))
			if tt.err == "" {
				require.NoError(t, err)
				require.NoError(t, errMade)
				require.NoError(t, errNew)
				assert.NotNil(t, b)
				assert.NotNil(t, made)
				return
			}
			assert.Nil(t, b)
			assert.Nil(t, made, "no typed nil either")
			require.ErrorContains(t, err, "retrybudget: TokenBucketConfig."+tt.err)
			assert.Equal(t, err, errMade)
			assert.ErrorContains(t, errNew, "WithBudget: ")
			assert.ErrorContains(t, errNew, tt.err)
		})
	}
}

func TestTokenBucket_defaults(t *testing.T) {
	t.Parallel()
	b := newTokenBucket(t, retrybudget.TokenBucketConfig{})
	tokens, capacity := b.Level()
	assert.InDelta(t, 0, tokens, 0, "starts empty")
	assert.InDelta(t, 20, capacity, 0)
	b.RecordSuccess()
	assert.Equal(t, int64(100), tokensIn(b))
	succeed(b, 1_000_000)
	assert.Equal(t, int64(20_000), tokensIn(b), "a quiet day buys no more than the capacity")
	assert.Equal(t, 20, takeAll(b, 1000))
}

// Naive arithmetic gives 1000, 1000, 333 and 166 for the first four ratios, and
// none for the last but one.
func TestTokenBucket_ratioIsExact(t *testing.T) {
	t.Parallel()
	for ratio, want := range map[float64]int{0.6: 600, 0.7: 700, 0.3: 300, 0.15: 150, 0.1: 100, 0.001: 1, 0.999: 999, 1: 1000} {
		b := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 10_000, Ratio: ratio})
		succeed(b, 1000)
		assert.Equal(t, want, takeAll(b, 10_000), "ratio %v", ratio)
	}
	b := newTokenBucket(t, retrybudget.TokenBucketConfig{})
	succeed(b, 9)
	assert.Equal(t, 0, takeAll(b, 10), "nine tenths are not one")
	succeed(b, 1)
	assert.Equal(t, 1, takeAll(b, 10), "ten tenths are exactly one")
}

func TestTokenBucket_steps(t *testing.T) {
	t.Parallel()
	type step struct {
		op   string // what is done
		ok   bool   // what TryTake says
		left int64  // thousandths afterwards
	}
	for _, tt := range []struct {
		name  string
		cfg   retrybudget.TokenBucketConfig
		steps []step
	}{
		{"a retry costs one token", retrybudget.TokenBucketConfig{Initial: 2}, []step{
			{"take", true, 1000}, {"take", true, 0}, {"take", false, 0},
		}},
		{"nothing comes back but from a refusal", retrybudget.TokenBucketConfig{Initial: 3}, []step{
			{"take", true, 2000},
			{"succeeded", false, 2000},
			{"answered", false, 2000},
			{"failed", false, 2000},
			{"abandoned", false, 2000},
			{"refused", false, 3000},
		}},
		{"a failure costs nothing", retrybudget.TokenBucketConfig{Initial: 1}, []step{{"failure", false, 1000}, {"take", true, 0}, {"failure", false, 0}}},
		{"a part of a token is no retry", retrybudget.TokenBucketConfig{Ratio: 0.999}, []step{
			{"success", false, 999}, {"take", false, 999}, {"success", false, 1998}, {"take", true, 998},
		}},
		{"what does not fit is lost", retrybudget.TokenBucketConfig{Capacity: 1, Ratio: 0.7}, []step{
			{"success", false, 700}, {"success", false, 1000}, {"success", false, 1000}, {"take", true, 0}, {"success", false, 700}, {"take", false, 700},
		}},
		{"a refund does not overflow", retrybudget.TokenBucketConfig{Capacity: 1, Ratio: 1, Initial: 1}, []step{
			{"take", true, 0}, {"success", false, 1000}, {"refused", false, 1000},
		}},
		{"a hinted retry costs four", retrybudget.TokenBucketConfig{Initial: 9}, []step{
			{"take hinted", true, 5000}, {"take hinted", true, 1000}, {"take hinted", false, 1000}, {"take", true, 0},
		}},
		{"and takes nothing when there are not four", retrybudget.TokenBucketConfig{Initial: 3, Ratio: 0.999}, []step{
			{"take hinted", false, 3000}, {"success", false, 3999}, {"take hinted", false, 3999}, {"success", false, 4998}, {"take hinted", true, 998},
		}},
		{"or the whole of a smaller capacity", retrybudget.TokenBucketConfig{Capacity: 2, Initial: 2}, []step{
			{"take", true, 1000}, {"take hinted", false, 1000}, {"refused", false, 2000}, {"take hinted", true, 0},
		}},
		{"capacity four", retrybudget.TokenBucketConfig{Capacity: 4, Initial: 4}, []step{{"take hinted", true, 0}}},
		{"capacity one", retrybudget.TokenBucketConfig{Capacity: 1, Initial: 1}, []step{{"take hinted", true, 0}, {"take", false, 0}}},
		{"a refused hinted retry gets all four back", retrybudget.TokenBucketConfig{Initial: 5}, []step{
			{"take hinted", true, 1000}, {"refused hinted", false, 5000},
		}},
		{"timeouts and codes cost the same", retrybudget.TokenBucketConfig{Initial: 2}, []step{{"take timeout", true, 1000}, {"take exhausted code", true, 0}}},
		{"largest capacity", retrybudget.TokenBucketConfig{Capacity: 1_000_000_000, Ratio: 1, Initial: 1_000_000_000}, []step{
			{"success", false, 1e12}, {"refused hinted", false, 1e12}, {"take", true, 1e12 - 1000}, {"success", false, 1e12},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newTokenBucket(t, tt.cfg)
			for i, s := range tt.steps {
				ok := false
				switch s.op {
				case "success":
					b.RecordSuccess()
				case "failure":
					b.RecordFailure(plain)
				case "take":
					ok = b.TryTake(plain)
				case "take hinted":
					ok = b.TryTake(hinted)
				case "take timeout":
					ok = b.TryTake(retrybudget.Cause{Code: codes.DeadlineExceeded, AttemptTimeout: true})
				case "take exhausted code":
					ok = b.TryTake(retrybudget.Cause{Code: codes.ResourceExhausted})
				case "refused hinted":
					b.Settle(hinted, retrybudget.Refused)
				default:
					b.Settle(plain, outcome(t, s.op))
				}
				require.Equal(t, s.ok, ok, "step %d, %s", i, s.op)
				require.Equal(t, s.left, tokensIn(b), "step %d, %s", i, s.op)
			}
		})
	}
}

// outcome finds an outcome by its name.
func outcome(t *testing.T, name string) retrybudget.Outcome {
	t.Helper()
	for o := retrybudget.Succeeded; o <= retrybudget.Refused; o++ {
		if o.String() == name {
			return o
		}
	}
	t.Fatalf("no outcome %q", name)
	return 0
}

func TestOutcome_unknown(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "unknown", retrybudget.Outcome(0).String())
	assert.Equal(t, "unknown", (retrybudget.Refused + 1).String())
}

// The smallest bucket: one retry at a time, the next one after ten successes.
func TestTokenBucket_capacityOne(t *testing.T) {
	t.Parallel()
	b := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1, Initial: 1})
	assert.Equal(t, 1, takeAll(b, 10))
	for range 3 {
		succeed(b, 9)
		assert.Equal(t, 0, takeAll(b, 10))
		succeed(b, 1)
		assert.Equal(t, 1, takeAll(b, 10))
	}
}

func TestTokenBucket_zeroValueGrantsNothing(t *testing.T) {
	t.Parallel()
	var b retrybudget.TokenBucket
	succeed(&b, 100)
	b.Settle(plain, retrybudget.Refused)
	assert.False(t, b.TryTake(plain))
	assert.False(t, b.TryTake(hinted))
	assert.Equal(t, int64(0), tokensIn(&b))
}
