package retrybudget_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// Causes that an AdaptiveBudget tells apart, beside plain and hinted.
var (
	timedOut    = retrybudget.Cause{Code: codes.DeadlineExceeded, Attempt: 1, AttemptTimeout: true}
	lateAnswer  = retrybudget.Cause{Code: codes.DeadlineExceeded, Attempt: 1}
	exhausted   = retrybudget.Cause{Code: codes.ResourceExhausted, Attempt: 1}
	aborted     = retrybudget.Cause{Code: codes.Aborted, Attempt: 1}
	hintedLate  = retrybudget.Cause{Code: codes.DeadlineExceeded, Attempt: 1, AttemptTimeout: true, Exhausted: true}
	allOutcomes = []retrybudget.Outcome{
		retrybudget.Succeeded, retrybudget.Answered, retrybudget.Failed, retrybudget.Abandoned, retrybudget.Refused,
	}
)

func newAdaptive(t testing.TB, cfg retrybudget.AdaptiveConfig) *retrybudget.AdaptiveBudget {
	t.Helper()
	b, err := retrybudget.NewAdaptiveBudget(cfg)
	require.NoError(t, err)
	return b
}

// microsIn returns the level of a budget in millionths of a token.
func microsIn(b retrybudget.LevelReporter) int64 {
	tokens, _ := b.Level()
	return int64(math.Round(tokens * 1e6))
}

func TestAdaptiveConfig_limits(t *testing.T) {
	t.Parallel()
	type config = retrybudget.AdaptiveConfig
	for _, tt := range []struct {
		cfg config
		err string // empty: accepted
	}{
		{config{}, ""},
		{config{Reserve: 1}, ""},
		{config{Reserve: 1_000_000}, ""},
		{config{Reserve: 1_000_001}, "Reserve 1000001 is not in 1..1000000"},
		{config{Reserve: -1}, "Reserve -1 is not in 1..1000000"},
		{config{Reserve: math.MinInt}, "Reserve"},
		{config{Ratio: 0.001}, ""},
		{config{Ratio: 1}, ""},
		{config{Ratio: 1.001}, "Ratio 1.001 is not in 0.001..1"},
		{config{Ratio: -0.1}, "Ratio -0.1 is not in 0.001..1"},
		{config{Ratio: 0.0005}, "Ratio 0.0005 is not a whole number of thousandths"},
		{config{Ratio: 0.1001}, "Ratio 0.1001 is not a whole number of thousandths"},
		{config{Ratio: math.NaN()}, "Ratio NaN is not in"},
		{config{Ratio: math.Inf(1)}, "Ratio +Inf is not in"},
		{config{Leak: time.Millisecond}, ""},
		{config{Leak: time.Hour}, ""},
		{config{Leak: time.Millisecond - 1}, "Leak 999.999µs is not in 1ms..1h0m0s"},
		{config{Leak: time.Hour + 1}, "Leak 1h0m0.000000001s is not in 1ms..1h0m0s"},
		{config{Leak: -time.Second}, "Leak -1s is not in"},
		// The same answer beside other fields that are set.
		{config{Reserve: 5, Ratio: 0.0005, Leak: time.Second}, "Ratio 0.0005"},
		{config{Reserve: -5, Ratio: 0.5, Leak: time.Second}, "Reserve -5"},
		{config{Reserve: 5, Ratio: 0.5, Leak: -1}, "Leak -1ns"},
	} {
		t.Run(fmt.Sprintf("%+v", tt.cfg), func(t *testing.T) {
			t.Parallel()
			b, err := retrybudget.NewAdaptiveBudget(tt.cfg)
			made, errMade := tt.cfg.NewBudget()
			_, errNew := retrybudget.New(retrybudget.WithBudget(retrybudget.PerTarget(tt.cfg)))
			if tt.err == "" {
				require.NoError(t, err)
				require.NoError(t, errMade)
				require.NoError(t, errNew)
				assert.True(t, b.TryTake(plain), "a reserve is there from the start")
				assert.NotNil(t, made)
				return
			}
			assert.Nil(t, b)
			assert.Nil(t, made, "no typed nil either")
			require.ErrorContains(t, err, "retrybudget: AdaptiveConfig."+tt.err)
			assert.Equal(t, err, errMade)
			assert.ErrorContains(t, errNew, tt.err)
		})
	}
}

func TestAdaptiveBudget_defaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptive(t, retrybudget.AdaptiveConfig{})
		tokens, capacity := b.Level()
		assert.InDelta(t, 2, tokens, 0, "the reserve")
		assert.InDelta(t, 1e9, capacity, 0)
		succeed(b, 10)
		assert.Equal(t, int64(3_000_000), microsIn(b), "ratio 0.1")
		<-time.After(2 * time.Second)
		assert.Equal(t, int64(2_500_000), microsIn(b), "half of what is above the reserve, after 2 s")
	})
}

func TestAdaptive_oneForTheMethodAndOneForTheTarget(t *testing.T) {
	t.Parallel()
	factory := retrybudget.Adaptive()
	of := func(target, method string) retrybudget.Budget {
		b, err := factory(target, method)
		require.NoError(t, err)
		return b
	}
	assert.Equal(t, 2, takeAll(of("a", "/s/1"), 10), "the method's reserve")
	assert.Equal(t, 1, takeAll(of("a", "/s/2"), 10), "what is left of the target's")
	assert.Equal(t, 0, takeAll(of("a", "/s/3"), 10))
	assert.Equal(t, 2, takeAll(of("b", "/s/1"), 10), "another target")
}

// What a retry costs, and in which outcomes that comes back.
func TestAdaptiveBudget_prices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		cause      retrybudget.Cause
		price      int64
		refundable bool
	}{
		{"UNAVAILABLE", plain, 1_000_000, true},
		{"hinted", hinted, 4_000_000, true},
		{"attempt timeout", timedOut, 1_500_000, false},
		{"DEADLINE_EXCEEDED of the server", lateAnswer, 1_500_000, false},
		{"RESOURCE_EXHAUSTED", exhausted, 1_500_000, false},
		{"hinted timeout", hintedLate, 6_000_000, false},
		{"any other code", aborted, 1_000_000, false},
		{"a later attempt", retrybudget.Cause{Code: codes.Unavailable, Attempt: 9}, 1_000_000, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, o := range allOutcomes {
					b := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 10})
					require.True(t, b.TryTake(tt.cause))
					assert.Equal(t, 10_000_000-tt.price, microsIn(b))
					b.Settle(tt.cause, o)
					back := o == retrybudget.Refused || tt.refundable && (o == retrybudget.Succeeded || o == retrybudget.Answered)
					if back {
						assert.Equal(t, int64(10_000_000), microsIn(b), o)
					} else {
						assert.Equal(t, 10_000_000-tt.price, microsIn(b), o)
					}
				}
			})
		})
	}
}

func TestAdaptiveBudget_oneTokenIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			cause retrybudget.Cause
			after int64
		}{{plain, 0}, {timedOut, -500_000}, {hinted, -3_000_000}, {hintedLate, -5_000_000}} {
			b := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 1, Ratio: 0.001})
			require.True(t, b.TryTake(tt.cause))
			assert.Equal(t, tt.after, microsIn(b))
			assert.False(t, b.TryTake(plain))
			// Overdrawn it recovers like any other: by successes alone.
			<-time.After(time.Hour)
			assert.Equal(t, tt.after, microsIn(b))
			missing := int(1_000_000-tt.after) / 1000
			succeed(b, missing-1)
			assert.False(t, b.TryTake(plain), "999 thousandths are not a token")
			succeed(b, 1)
			// Nothing has leaked: a level up to the reserve does not.
			assert.True(t, b.TryTake(plain))
			assert.Equal(t, int64(0), microsIn(b))
		}
	})
}

// Naive arithmetic gives other numbers; see TestTokenBucket_ratioIsExact.
func TestAdaptiveBudget_ratioIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for ratio, want := range map[float64]int{0.6: 600, 0.7: 700, 0.3: 300, 0.15: 150, 0.1: 100, 0.001: 1, 0.999: 999, 1: 1000} {
			b := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 1, Ratio: ratio})
			succeed(b, 1000)
			assert.Equal(t, 1+want, takeAll(b, 10_000), "ratio %v", ratio)
		}
		b := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 1})
		require.Equal(t, 1, takeAll(b, 10))
		succeed(b, 9)
		assert.Equal(t, 0, takeAll(b, 10))
		succeed(b, 1)
		assert.Equal(t, 1, takeAll(b, 10), "ten tenths are exactly one")
	})
}

// In steady traffic the level is the reserve and a tenth of the successes of two
// seconds, whether or not failures come to settle it.
func TestAdaptiveBudget_followsTraffic(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{10, 100, 1000} {
		for _, failures := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/s, failures %v", rate, failures), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := newAdaptive(t, retrybudget.AdaptiveConfig{})
					for range 60 * rate {
						<-time.After(time.Second / time.Duration(rate))
						b.RecordSuccess()
						if failures && b.TryTake(plain) {
							b.Settle(plain, retrybudget.Succeeded)
						}
					}
					want := 0.2 * float64(rate)
					tokens, _ := b.Level()
					assert.InDelta(t, 2+want, tokens, 0.05*want+0.2)

					granted := takeAll(b, 10_000)
					assert.InDelta(t, 2+want, granted, 0.05*want+1, "the burst when it fails")
					<-time.After(time.Hour)
					assert.Equal(t, 0, takeAll(b, 10), "time alone earns nothing")
				})
			})
		}
	}
}

// A leak in small steps is the leak of e to the power of time, for which the one
// in a single large step is a tight upper bound; rounding does not add up.
func TestAdaptiveBudget_leakInSmallSteps(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{10 * time.Microsecond, time.Millisecond, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			b := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 1})
			succeed(b, 1000) // 100 tokens
			for range 200 * time.Millisecond / step {
				<-time.After(step)
				require.True(t, b.TryTake(plain)) // settles
				b.Settle(plain, retrybudget.Refused)
			}
			// In steps of s: 100·(1 + s/2 s)^(−200 ms/s).
			s := step.Seconds()
			tokens, _ := b.Level()
			assert.InDelta(t, 1+100*math.Pow(1+s/2, -0.2/s), tokens, 0.1, "steps of %v", step)
		})
	}
}

func TestAdaptiveBudget_afterIdleTime(t *testing.T) {
	t.Parallel()
	for _, idle := range []time.Duration{time.Hour, 2 * time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			b := newAdaptive(t, retrybudget.AdaptiveConfig{})
			succeed(b, 100)
			<-time.After(idle)
			tokens, _ := b.Level()
			assert.InDelta(t, 2, tokens, 0.01, "the reserve")
			for range 100 {
				require.True(t, b.TryTake(plain), "retries are granted from the first call on")
				b.Settle(plain, retrybudget.Succeeded)
				<-time.After(100 * time.Millisecond)
			}
			assert.Equal(t, 2, takeAll(b, 10))
			succeed(b, 10)
			assert.Equal(t, 1, takeAll(b, 10), "and deposits counted")
		})
	}
}

// Extremes neither overflow nor leave the documented range.
func TestAdaptiveBudget_extremes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 1_000_000, Ratio: 1, Leak: time.Hour})
		inRange := func() {
			tokens, capacity := b.Level()
			require.GreaterOrEqual(t, tokens, -5.0)
			require.LessOrEqual(t, tokens, capacity)
		}
		inRange()
		succeed(b, 1_000_000)
		inRange()
		assert.Equal(t, int64(2_000_000_000_000), microsIn(b))
		<-time.After(10 * 365 * 24 * time.Hour)
		inRange()
		tokens, _ := b.Level()
		assert.InDelta(t, 1_000_000, tokens, 20, "ten years later little more than the reserve is left")
		granted := 0
		for b.TryTake(hintedLate) {
			granted++
			inRange()
		}
		assert.InDelta(t, 1_000_000/6, granted, 4)
		for range 1_000_000 {
			b.TryTake(plain)
		}
		inRange()
		<-time.After(10 * 365 * 24 * time.Hour)
		inRange()
		succeed(b, 20)
		assert.True(t, b.TryTake(plain), "never stuck")
	})
}

// A quiet day of successes buys no more than their rate says.
func TestAdaptiveBudget_quietDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptive(t, retrybudget.AdaptiveConfig{})
		succeed(b, 1_000_000)
		<-time.After(24 * time.Hour)
		assert.Equal(t, 4, takeAll(b, 100), "2 of reserve, and 0.1 × 1,000,000 × 2 s / 24 h = 2.3")
	})
}

func TestAdaptiveBudget_zeroValueGrantsNothing(t *testing.T) {
	t.Parallel()
	var b retrybudget.AdaptiveBudget
	succeed(&b, 100)
	assert.False(t, b.TryTake(plain))
	tokens, _ := b.Level()
	assert.InDelta(t, 0, tokens, 0)
}
