package retrybudget_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

func newThrottle(t testing.TB, maxTokens int, ratio float64) *retrybudget.Throttle {
	t.Helper()
	b, err := retrybudget.NewThrottle(retrybudget.ThrottleConfig{MaxTokens: maxTokens, TokenRatio: ratio})
	require.NoError(t, err)
	return b
}

func fail(b retrybudget.Budget, times int) {
	for range times {
		b.RecordFailure(plain)
	}
}

// The range of gRFC A6, but for what can never work.
func TestThrottleConfig_limits(t *testing.T) {
	t.Parallel()
	type config = retrybudget.ThrottleConfig
	for _, tt := range []struct {
		cfg config
		err string // empty: accepted
	}{
		{config{10, 0.1}, ""},
		{config{3, 0.1}, ""},
		{config{1000, 0.1}, ""},
		{config{10, 0.001}, ""},
		{config{10, 0.546}, ""},
		{config{10, 1}, ""},
		{config{10, 1000}, ""},
		{config{}, "MaxTokens 0 is not in 3..1000"},
		{config{0, 0.1}, "MaxTokens 0 is not in 3..1000"},
		{config{-1, 0.1}, "MaxTokens -1 is not in 3..1000"},
		{config{1001, 0.1}, "MaxTokens 1001 is not in 3..1000"},
		{config{1, 0.1}, "MaxTokens 1 can never grant a retry"},
		{config{2, 0.1}, "MaxTokens 2 can never grant a retry"},
		{config{1, 0}, "MaxTokens 1 can never grant a retry"},
		{config{10, 0}, "TokenRatio 0 is not in 0.001..1000"},
		{config{10, -0.1}, "TokenRatio -0.1 is not in"},
		{config{10, 0.0005}, "TokenRatio 0.0005 is not a whole number of thousandths"},
		{config{10, 0.5466}, "TokenRatio 0.5466 is not a whole number of thousandths"},
		{config{10, 1001}, "TokenRatio 1001 is not in"},
		{config{10, math.NaN()}, "TokenRatio NaN is not in"},
		{config{10, math.Inf(1)}, "TokenRatio +Inf is not in"},
	} {
		t.Run(fmt.Sprintf("%+v", tt.cfg), func(t *testing.T) {
			t.Parallel()
			b, err := retrybudget.NewThrottle(tt.cfg)
			made, errMade := tt.cfg.NewBudget()
			_, errNew := retrybudget.New(retrybudget.WithBudget(retrybudget.PerTarget(tt.cfg)))
			if tt.err == "" {
				require.NoError(t, err)
				require.NoError(t, errMade)
				require.NoError(t, errNew)
				tokens, capacity := b.Level()
				assert.InDelta(t, tt.cfg.MaxTokens, tokens, 0, "starts full")
				assert.InDelta(t, tt.cfg.MaxTokens, capacity, 0)
				fail(b, 1)
				assert.True(t, b.TryTake(plain), "a retry is possible")
				assert.NotNil(t, made)
				return
			}
			assert.Nil(t, b)
			assert.Nil(t, made, "no typed nil either")
			require.ErrorContains(t, err, "retrybudget: ThrottleConfig."+tt.err)
			assert.Equal(t, err, errMade)
			assert.ErrorContains(t, errNew, tt.err)
		})
	}
}

func TestThrottle_steps(t *testing.T) {
	t.Parallel()
	type step struct {
		op    string
		times int
		open  bool  // what TryTake says afterwards
		left  int64 // thousandths afterwards
	}
	for _, tt := range []struct {
		name      string
		maxTokens int
		ratio     float64
		steps     []step
	}{
		{"stops at half", 10, 0.1, []step{
			{"failure", 1, true, 9000}, {"failure", 3, true, 6000}, {"failure", 1, false, 5000}, {"success", 1, true, 5100},
		}},
		{"half of an odd number", 3, 0.5, []step{
			{"failure", 1, true, 2000}, {"failure", 1, false, 1000}, {"success", 1, false, 1500}, {"success", 1, true, 2000},
		}},
		{"never below zero, never above the maximum", 10, 0.1, []step{
			{"failure", 25, false, 0}, {"success", 50, false, 5000}, {"success", 1, true, 5100}, {"success", 1000, true, 10_000},
		}},
		{"a retry that succeeded is a success, any other end is none", 10, 0.5, []step{
			{"failure", 5, false, 5000},
			{"answered", 1, false, 5000},
			{"failed", 1, false, 5000},
			{"abandoned", 1, false, 5000},
			{"refused", 1, false, 5000},
			{"succeeded", 1, true, 5500},
		}},
		// The failure is subtracted first, then the rest compared: sixty
		// successes are not enough.
		{"sixty successes", 10, 0.1, []step{{"failure", 10, false, 0}, {"success", 60, true, 6000}, {"failure", 1, false, 5000}}},
		{"sixty-one successes", 10, 0.1, []step{{"failure", 10, false, 0}, {"success", 61, true, 6100}, {"failure", 1, true, 5100}}},
		{"the smallest ratio", 1000, 0.001, []step{
			{"failure", 500, false, 500_000}, {"success", 1, true, 500_001}, {"success", 999, true, 501_000}, {"failure", 1, false, 500_000},
		}},
		{"a ratio that fills it at once", 1000, 1000, []step{{"failure", 1000, false, 0}, {"success", 1, true, 1_000_000}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newThrottle(t, tt.maxTokens, tt.ratio)
			for i, s := range tt.steps {
				for range s.times {
					switch s.op {
					case "failure":
						b.RecordFailure(plain)
					case "success":
						b.RecordSuccess()
					default:
						b.Settle(plain, outcome(t, s.op))
					}
				}
				require.Equal(t, s.left, tokensIn(b), "step %d, %s", i, s.op)
				require.Equal(t, s.open, b.TryTake(plain), "step %d, %s", i, s.op)
				require.Equal(t, s.left, tokensIn(b), "step %d, asking costs nothing", i)
			}
		})
	}
}

// gRFC A6 knows one kind of failure.
func TestThrottle_everyFailureCostsOne(t *testing.T) {
	t.Parallel()
	for _, c := range append(pricedCauses(), pricedCause{cause: retrybudget.Cause{Code: codes.NotFound, Veto: true}}) {
		b := newThrottle(t, 10, 0.1)
		b.RecordFailure(c.cause)
		assert.Equal(t, int64(9000), tokensIn(b), "%+v", c.cause)
	}
}

// FuzzThrottle runs random operations beside the words of gRFC A6.
func FuzzThrottle(f *testing.F) {
	f.Add(uint16(10), uint32(100), []byte("ffffffsssrrx"))
	f.Add(uint16(3), uint32(1), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(uint16(1000), uint32(999_999), []byte{2, 2, 1, 1, 1, 4, 4, 4, 0, 0})
	f.Fuzz(func(t *testing.T, maxTokens uint16, ratio uint32, ops []byte) {
		tokens, ratio := int64(maxTokens%998)+3, ratio%1_000_000+1
		b := newThrottle(t, int(tokens), float64(ratio)/1000)
		most := tokens * 1000
		count := most
		for i, op := range ops {
			switch op % 4 {
			case 0:
				b.RecordSuccess()
				count = min(count+int64(ratio), most)
			case 1:
				fail(b, int(op/4)+1)
				count = max(count-1000*int64(op/4+1), 0)
			case 2:
				require.Equal(t, 2*count > most, b.TryTake(plain), "operation %d", i)
			default:
				o := allOutcomes[int(op/4)%len(allOutcomes)]
				b.Settle(plain, o)
				if o == retrybudget.Succeeded {
					count = min(count+int64(ratio), most)
				}
			}
			require.Equal(t, count, tokensIn(b), "operation %d", i)
		}
	})
}

// Not a thousandth gets lost between goroutines.
func TestThrottle_exactUnderLoad(t *testing.T) {
	t.Parallel()
	// Within limits that the count does not reach: 32 × 10 failures at most.
	b := newThrottle(t, 1000, 0.5)
	fail(b, 400)
	var failures, successes atomic.Int64
	parallel(32, func(i int) {
		chance := rand.New(rand.NewPCG(1, uint64(i)))
		for range 10 {
			switch chance.IntN(3) {
			case 0:
				b.RecordFailure(plain)
				failures.Add(1)
			case 1:
				b.RecordSuccess()
				successes.Add(1)
			default:
				b.Settle(plain, retrybudget.Succeeded)
				successes.Add(1)
			}
		}
	})
	assert.Equal(t, 600_000-1000*failures.Load()+500*successes.Load(), tokensIn(b))
	assert.Positive(t, failures.Load())

	// And beyond them: whatever the order, it ends where the last stretch leads.
	parallel(32, func(int) { fail(b, 1000) })
	assert.Equal(t, int64(0), tokensIn(b))
	parallel(32, func(int) { succeed(b, 1000) })
	assert.Equal(t, int64(1_000_000), tokensIn(b))
}

func TestThrottle_zeroValueGrantsNothing(t *testing.T) {
	t.Parallel()
	var b retrybudget.Throttle
	succeed(&b, 100)
	assert.False(t, b.TryTake(plain))
}
