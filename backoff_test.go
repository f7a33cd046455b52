package retrybudget_test

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
)

// nth is the input of a backoff that looks at the retry number only.
func nth(n int) retrybudget.BackoffInput { return retrybudget.BackoffInput{Retry: n} }

// These values are the same on every platform: the arithmetic is in integers.
func TestExponentialBackoff_withoutJitter(t *testing.T) {
	t.Parallel()
	const hour, ms = time.Hour, time.Millisecond
	for _, tt := range []struct {
		name    string
		backoff retrybudget.ExponentialBackoff
		waits   map[int]time.Duration
	}{
		{"defaults", retrybudget.ExponentialBackoff{}, map[int]time.Duration{
			math.MinInt: 50 * ms, -1: 50 * ms, 0: 50 * ms, 1: 50 * ms, 2: 100 * ms, 3: 200 * ms, 4: 400 * ms, 5: 800 * ms, 6: time.Second, 39: time.Second, math.MaxInt: time.Second,
		}},
		{"initial above the default max", retrybudget.ExponentialBackoff{Initial: 3 * time.Second}, map[int]time.Duration{
			1: 3 * time.Second, 2: 3 * time.Second, 100: 3 * time.Second,
		}},
		{"no max", retrybudget.ExponentialBackoff{Max: retrybudget.NoMaxBackoff}, map[int]time.Duration{
			1: 50 * ms, 11: 51_200 * ms, 38: 50 * ms << 37, 39: math.MaxInt64, 40: math.MaxInt64, 64: math.MaxInt64, 65: math.MaxInt64, 100_000: math.MaxInt64, math.MaxInt: math.MaxInt64,
		}},
		{"constant", retrybudget.ExponentialBackoff{Initial: 7, Multiplier: 1, Max: hour}, map[int]time.Duration{1: 7, 2: 7, 1_000_000: 7, math.MaxInt: 7}},
		{"half more", retrybudget.ExponentialBackoff{Initial: 1000, Multiplier: 1.5, Max: hour}, map[int]time.Duration{1: 1000, 2: 1500, 3: 2250, 4: 3375, 5: 5062, 6: 7593}},
		{"tiny initial reaches max", retrybudget.ExponentialBackoff{Initial: 1, Max: hour}, map[int]time.Duration{
			1: 1, 31: 1 << 30, 32: 1 << 31, 33: 1 << 32, 34: 1 << 33, 42: 1 << 41, 43: hour, 1000: hour, math.MaxInt: hour,
		}},
		{"tiny initial without max", retrybudget.ExponentialBackoff{Initial: 1, Max: retrybudget.NoMaxBackoff}, map[int]time.Duration{
			33: 1 << 32, 62: 1 << 61, 63: 1 << 62, 64: math.MaxInt64, 1 << 20: math.MaxInt64,
		}},
		{"largest multiplier", retrybudget.ExponentialBackoff{Initial: 1, Multiplier: 1_000_000, Max: retrybudget.NoMaxBackoff}, map[int]time.Duration{
			1: 1, 2: time.Millisecond, 3: 1000 * time.Second, 4: 1e18, 5: math.MaxInt64,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.backoff.Jitter = retrybudget.JitterNone
			for n, want := range tt.waits {
				assert.Equal(t, want, tt.backoff.Wait(nth(n)), "retry %d", n)
			}
		})
	}
}

// exponential computes min(max, initial·multiplierⁿ⁻¹) in big floats, far more
// exactly than any Duration can show.
func exponential(initial time.Duration, multiplier float64, most time.Duration, n int) float64 {
	d := new(big.Float).SetPrec(256).SetInt64(int64(initial))
	m := new(big.Float).SetPrec(256).SetFloat64(multiplier)
	limit := new(big.Float).SetInt64(int64(most))
	for range min(max(n, 1)-1, 100_000) {
		if multiplier == 1 || d.Cmp(limit) >= 0 {
			break
		}
		d.Mul(d, m)
	}
	if d.Cmp(limit) > 0 {
		d = limit
	}
	f, _ := d.Float64()
	return f
}

var (
	initials    = []time.Duration{1, time.Microsecond, time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour, math.MaxInt64}
	multipliers = []float64{1, 1.01, 1.1, 1.5, 2, 3, 10, 1_000_000}
	maxima      = []time.Duration{time.Second, time.Hour, math.MaxInt64 / 2, retrybudget.NoMaxBackoff}
)

// retryNumbers covers the start, each number at which a product of int64s would
// overflow, and numbers that nobody reaches.
func retryNumbers() []int {
	numbers := []int{math.MinInt, -1, 0, 1, 2, 3, 10, 1000, 100_000, 1 << 20, math.MaxInt}
	for n := 30; n <= 70; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

func TestExponentialBackoff_growsAsDocumented(t *testing.T) {
	t.Parallel()
	for _, initial := range initials {
		for _, multiplier := range multipliers {
			for _, most := range maxima {
				if most < initial {
					continue // refused by New
				}
				b := retrybudget.ExponentialBackoff{Initial: initial, Multiplier: multiplier, Max: most, Jitter: retrybudget.JitterNone}
				for _, n := range retryNumbers() {
					want := exponential(initial, multiplier, most, n)
					// Each of at most 64 products cuts a part in 2³².
					if !assert.InDelta(t, want, float64(b.Wait(nth(n))), want*1e-5+2, "%+v, retry %d", b, n) {
						return
					}
				}
			}
		}
	}
}

func TestExponentialBackoff_neverDecreases(t *testing.T) {
	t.Parallel()
	for _, initial := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		for _, multiplier := range multipliers {
			for _, most := range []time.Duration{time.Second, retrybudget.NoMaxBackoff} {
				b := retrybudget.ExponentialBackoff{Initial: initial, Multiplier: multiplier, Max: most, Jitter: retrybudget.JitterNone}
				last := initial
				for n := 1; n <= 100_000; n += 1 + n/1000 {
					d := b.Wait(nth(n))
					if d < last || d > most {
						t.Fatalf("%+v: retry %d waits %v after %v", b, n, d, last)
					}
					last = d
				}
			}
		}
	}
}

// bounds of a wait, for the wait d before jitter.
var jitters = map[retrybudget.Jitter]func(d float64, b retrybudget.ExponentialBackoff) (low, high float64){
	retrybudget.JitterFull: func(d float64, _ retrybudget.ExponentialBackoff) (_, _ float64) { return 0, d },
	retrybudget.JitterNone: func(d float64, _ retrybudget.ExponentialBackoff) (_, _ float64) { return d, d },
	retrybudget.JitterA6: func(d float64, _ retrybudget.ExponentialBackoff) (_, _ float64) {
		return 0.8 * d, min(1.2*d, math.MaxInt64)
	},
	retrybudget.JitterEqual: func(d float64, _ retrybudget.ExponentialBackoff) (_, _ float64) { return d / 2, d },
	// The retry number plays no part; Previous is 0 here.
	retrybudget.JitterDecorrelated: func(_ float64, b retrybudget.ExponentialBackoff) (_, _ float64) {
		return float64(b.Initial), min(3*float64(b.Initial), float64(b.Max))
	},
}

func TestExponentialBackoff_jitterStaysInItsBounds(t *testing.T) {
	t.Parallel()
	for _, initial := range initials {
		for _, multiplier := range multipliers {
			for _, most := range maxima {
				if most < initial {
					continue
				}
				for _, n := range retryNumbers() {
					grown := exponential(initial, multiplier, most, n)
					for jitter, bounds := range jitters {
						b := retrybudget.ExponentialBackoff{Initial: initial, Multiplier: multiplier, Max: most, Jitter: jitter}
						low, high := bounds(grown, b)
						d := b.Wait(nth(n))
						if d < 0 || float64(d) < low*(1-1e-5)-2 || float64(d) > high*(1+1e-5)+2 {
							t.Fatalf("%+v: retry %d waits %v, not in [%v, %v]", b, n, d, time.Duration(low), time.Duration(high))
						}
					}
				}
			}
		}
	}
}

// Each jitter reaches both ends of its range, and its middle on average.
func TestExponentialBackoff_jitterSpreads(t *testing.T) {
	t.Parallel()
	const samples = 20_000
	for jitter, bounds := range jitters {
		b := retrybudget.ExponentialBackoff{Initial: time.Second, Max: time.Minute, Jitter: jitter}
		low, high := bounds(float64(4*time.Second), b)
		least, most, sum := math.Inf(1), 0.0, 0.0
		for range samples {
			d := float64(b.Wait(nth(3)))
			least, most, sum = min(least, d), max(most, d), sum+d
		}
		width := high - low
		assert.InDelta(t, low, least, width/100, "jitter %d", jitter)
		assert.InDelta(t, high, most, width/100, "jitter %d", jitter)
		assert.InDelta(t, (low+high)/2, sum/samples, width/50, "jitter %d", jitter)
	}
}

func TestExponentialBackoff_decorrelatedFollowsThePreviousWait(t *testing.T) {
	t.Parallel()
	b := retrybudget.ExponentialBackoff{Initial: 10 * time.Millisecond, Max: time.Second, Jitter: retrybudget.JitterDecorrelated}
	for _, tt := range []struct{ previous, high time.Duration }{
		{-time.Hour, 30 * time.Millisecond},
		{0, 30 * time.Millisecond},
		{5 * time.Millisecond, 30 * time.Millisecond}, // below Initial
		{100 * time.Millisecond, 300 * time.Millisecond},
		{time.Second / 3, time.Second},
		{900 * time.Millisecond, time.Second},
		{math.MaxInt64, time.Second},
	} {
		var most time.Duration
		for range 2000 {
			d := b.Wait(retrybudget.BackoffInput{Retry: 2, Previous: tt.previous})
			require.GreaterOrEqual(t, d, b.Initial)
			require.LessOrEqual(t, d, tt.high)
			most = max(most, d)
		}
		assert.Greater(t, most, tt.high*9/10, "previous %v", tt.previous)
	}
}

// A policy is refused when it is built, or its waits stay in their bounds.
func TestExponentialBackoff_refusedOrSafe(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{math.MinInt64, -time.Second, -1, 0, 1, 50 * time.Millisecond, time.Second, math.MaxInt64}
	factors := []float64{math.NaN(), math.Inf(-1), -1, 0, 0.5, 1, 2, 1_000_000, 1_000_001, math.Inf(1), math.MaxFloat64}
	built := 0
	for _, initial := range durations {
		for _, most := range durations {
			for _, multiplier := range factors {
				for jitter := range retrybudget.Jitter(8) {
					b := retrybudget.ExponentialBackoff{Initial: initial, Multiplier: multiplier, Max: most, Jitter: jitter}
					var d time.Duration
					require.NotPanics(t, func() {
						d = b.Wait(retrybudget.BackoffInput{Retry: 40, Previous: time.Second})
					}, "%+v", b)
					require.GreaterOrEqual(t, d, time.Duration(0), "%+v", b)
					_, err := retrybudget.New(retrybudget.WithPolicy(retrybudget.Policy{Backoff: b}))
					if err != nil {
						require.ErrorContains(t, err, "Policy.Backoff.", "%+v", b)
						continue
					}
					built++
					limit := max(most, initial, 50*time.Millisecond)
					if most == 0 {
						limit = max(initial, time.Second)
					}
					if limit < math.MaxInt64/2 {
						require.LessOrEqual(t, d, limit*6/5, "%+v", b)
					}
				}
			}
		}
	}
	// Initial 0, 1 ns, 50 ms and 1 s with their maxima and MaxInt64 with two;
	// multiplier 0, 1, 2 and 1,000,000; five jitters.
	assert.Equal(t, (4+5+4+3+2)*4*5, built)
}

func TestConstantBackoff(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, 1, time.Second, math.MaxInt64} {
		for _, n := range retryNumbers() {
			require.Equal(t, d, retrybudget.ConstantBackoff(d).Wait(retrybudget.BackoffInput{Retry: n, Previous: time.Hour}))
		}
		_, err := retrybudget.New(retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(d)}))
		require.NoError(t, err)
	}
	_, err := retrybudget.New(retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(-1)}))
	assert.ErrorContains(t, err, "Policy.Backoff -1ns is negative")
}

// Processes that start together must not retry together.
func TestExponentialBackoff_processesDiffer(t *testing.T) {
	t.Parallel()
	const variable = "RETRYBUDGET_TEST_PRINT_WAITS"
	if os.Getenv(variable) != "" { // one of the two processes below
		for range 20 {
			fmt.Println("wait", retrybudget.ExponentialBackoff{}.Wait(nth(5)))
		}
		return
	}
	waits := func() (lines [][]byte) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExponentialBackoff_processesDiffer$")
		cmd.Env = append(os.Environ(), variable+"=1")
		out, err := cmd.Output()
		require.NoError(t, err)
		for line := range bytes.Lines(out) {
			if bytes.HasPrefix(line, []byte("wait ")) {
				lines = append(lines, line)
			}
		}
		require.Len(t, lines, 20)
		return lines
	}
	first, second := waits(), waits()
	for i := range first {
		assert.NotEqual(t, first[i], second[i])
	}
}
