package retrybudget_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
)

// What must hold for an AdaptiveBudget over every window of every history. In
// millionths of a token, with the default ratio and leak:
const (
	aToken      = 1_000_000
	aDeposit    = aToken / 10
	aReserve    = 2 * aToken
	dearestTake = 6 * aToken // a hinted retry after a timeout
)

// history is what happened to a budget, moment by moment.
type history struct {
	moments []moment
}

// moment is the state right after an operation. The sums are over all that
// happened up to then.
type moment struct {
	at                 time.Time
	settled            bool  // the operation settled the budget
	successes          int64 // first attempts
	debited, givenBack int64
	inFlight           int64 // refundable price of retries not yet settled
	// lost counts the retries granted up to here whose price does not come back,
	// then or later. Those that never end are not among them.
	lost               int64
	levelBefore, level int64 // before and after what was taken
}

// live runs n random operations on b and returns its history. weights say how
// often a success, a retry, the end of a retry and a pause come.
func live(b *retrybudget.AdaptiveBudget, chance *rand.Rand, n int, weights [4]int) *history {
	h := &history{moments: []moment{{at: time.Now(), settled: true, levelBefore: microsIn(b), level: microsIn(b)}}}
	type retry struct {
		pricedCause
		moment int
	}
	var open []retry
	finish := func(m *moment, i int, o retrybudget.Outcome) {
		r := open[i]
		open = append(open[:i], open[i+1:]...)
		b.Settle(r.cause, o)
		if r.refundable {
			m.inFlight -= r.price
		}
		if r.refundable && (o == retrybudget.Succeeded || o == retrybudget.Answered) {
			m.givenBack += r.price
			return
		}
		for j := r.moment; j < len(h.moments); j++ {
			h.moments[j].lost++
		}
		m.lost++
	}
	for range n {
		m := h.moments[len(h.moments)-1]
		m.settled = false
		switch kind := chance.IntN(weights[0] + weights[1] + weights[2] + weights[3]); {
		case kind < weights[0]:
			k := 1 + chance.IntN(20)
			succeed(b, k)
			m.successes += int64(k)
		case kind < weights[0]+weights[1]:
			c := pricedCauses()[chance.IntN(len(pricedCauses()))]
			m.settled, m.levelBefore = true, microsIn(b)
			if b.TryTake(c.cause) {
				m.debited += c.price
				open = append(open, retry{c, len(h.moments)})
				if c.refundable {
					m.inFlight += c.price
				}
			}
		case kind < weights[0]+weights[1]+weights[2]:
			if len(open) > 0 {
				finish(&m, chance.IntN(len(open)), allOutcomes[chance.IntN(4)]) // Refused is not an end of a retry
			}
		default:
			<-time.After(time.Duration(chance.Int64N(int64(3 * time.Second))))
		}
		m.at, m.level = time.Now(), microsIn(b)
		h.moments = append(h.moments, m)
	}
	return h
}

// histories runs f for random histories of several kinds.
func histories(t *testing.T, f func(t *testing.T, h *history)) {
	t.Helper()
	for name, weights := range map[string][4]int{
		"mixed":        {3, 4, 3, 1},
		"outage":       {0, 8, 3, 1},
		"healthy":      {20, 2, 2, 1},
		"in flight":    {1, 8, 1, 1},
		"without time": {1, 2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				synctest.Test(t, func(t *testing.T) {
					f(t, live(newAdaptive(t, retrybudget.AdaptiveConfig{}), rand.New(rand.NewPCG(seed, 1)), 300, weights))
				})
			}
		})
	}
}

// windows runs f for every window (a, b] that starts right after a settlement.
func (h *history) windows(f func(a, b *moment)) {
	for i := range h.moments {
		if !h.moments[i].settled {
			continue
		}
		for j := i + 1; j < len(h.moments); j++ {
			f(&h.moments[i], &h.moments[j])
		}
	}
}

// Debits that are not given back are bounded by what was there and what
// successes earned; so failed retries are.
func TestAdaptiveInvariant_debits(t *testing.T) {
	t.Parallel()
	histories(t, func(t *testing.T, h *history) {
		most := int64(0)
		h.windows(func(a, b *moment) {
			// Of what was given back, up to a.inFlight was debited before the window:
			// so much more than kept may be missing of its own debits.
			kept := (b.debited - a.debited) - (b.givenBack - a.givenBack)
			bound := a.level + aDeposit*(b.successes-a.successes) + dearestTake - aToken
			if kept > bound || a.givenBack > a.debited {
				require.Failf(t, "more than the bound", "%d of %d in the window %+v %+v", kept, bound, *a, *b)
			}
			most = max(most, kept)
		})
		assert.Positive(t, most, "nothing was debited, nothing is shown")
	})
}

// Without successes retries whose price does not come back end, however long the
// window and however many the calls.
func TestAdaptiveInvariant_retriesEndWithoutSuccess(t *testing.T) {
	t.Parallel()
	histories(t, func(t *testing.T, h *history) {
		h.windows(func(a, b *moment) {
			if a.successes == b.successes && aToken*(b.lost-a.lost) > a.level+a.inFlight+dearestTake-aToken {
				require.Failf(t, "more than the bound", "%d in the window %+v %+v", b.lost-a.lost, *a, *b)
			}
		})
	})
}

// The level stays above its floor, and leaks as it should.
func TestAdaptiveInvariant_level(t *testing.T) {
	t.Parallel()
	const leak = 2 * time.Second
	histories(t, func(t *testing.T, h *history) {
		before := &h.moments[0]
		for i := range h.moments {
			m := &h.moments[i]
			require.GreaterOrEqual(t, m.level, int64(aToken-dearestTake))
			if !m.settled {
				continue
			}
			over := float64(max(before.level-aReserve, 0) + aDeposit*(m.successes-before.successes) + m.givenBack - before.givenBack)
			kept := over * float64(leak) / float64(leak+m.at.Sub(before.at))
			require.LessOrEqual(t, float64(m.levelBefore), aReserve+kept+1)
			before = m
		}
	})
}

// Without successes the level and what may come back to it never grow.
func TestAdaptiveInvariant_nothingComesFromNothing(t *testing.T) {
	t.Parallel()
	histories(t, func(t *testing.T, h *history) {
		for i := 1; i < len(h.moments); i++ {
			before, m := &h.moments[i-1], &h.moments[i]
			if before.successes == m.successes {
				require.LessOrEqual(t, m.level+m.inFlight, before.level+before.inFlight)
			}
		}
	})
}

// Twice the traffic gets twice the tokens above the reserve.
func TestAdaptiveInvariant_scales(t *testing.T) {
	t.Parallel()
	aboveReserve := func(factor int) (above float64) {
		synctest.Test(t, func(t *testing.T) {
			b := newAdaptive(t, retrybudget.AdaptiveConfig{})
			chance := rand.New(rand.NewPCG(5, 5))
			for range 1000 {
				succeed(b, factor*chance.IntN(10))
				if chance.IntN(5) == 0 && b.TryTake(plain) {
					b.Settle(plain, retrybudget.Succeeded)
				}
				<-time.After(time.Duration(chance.IntN(100)) * time.Millisecond)
			}
			above = float64(microsIn(b) - aReserve)
		})
		return above
	}
	once := aboveReserve(1)
	require.Greater(t, once, float64(aToken))
	assert.InEpsilon(t, 2*once, aboveReserve(2), 1e-4)
	assert.InEpsilon(t, 10*once, aboveReserve(10), 1e-4)
}

// A method that never succeeds gets what its own bucket holds, whatever others
// do, and others lose no more than that in the target's.
func TestAdaptiveInvariant_oneBrokenMethod(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 2))
			target := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 3})
			ofBroken, ofHealthy := newAdaptive(t, retrybudget.AdaptiveConfig{}), newAdaptive(t, retrybudget.AdaptiveConfig{})
			broken, healthy := both(t, ofBroken, target), both(t, ofHealthy, target)
			alone := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 3}) // the target's without the broken method
			healthyAlone := both(t, newAdaptive(t, retrybudget.AdaptiveConfig{}), alone)
			granted := 0
			for range 2000 {
				c := pricedCauses()[chance.IntN(len(pricedCauses()))].cause
				switch chance.IntN(4) {
				case 0, 1:
					healthy.RecordSuccess()
					healthyAlone.RecordSuccess()
				case 2:
					if broken.TryTake(c) {
						granted++
						broken.Settle(c, retrybudget.Failed)
					}
				default:
					<-time.After(time.Duration(chance.IntN(50)) * time.Millisecond)
				}
			}
			assert.LessOrEqual(t, aToken*granted, aReserve+dearestTake-aToken)
			assert.Positive(t, granted)
			assert.GreaterOrEqual(t, microsIn(target), microsIn(alone)-(aReserve+dearestTake-aToken))
			assert.True(t, healthy.TryTake(plain))
		})
	}
}

// The bound holds whatever runs at the same time, on a clock that moves.
func TestAdaptiveBudget_boundUnderLoad(t *testing.T) {
	t.Parallel()
	b := newAdaptive(t, retrybudget.AdaptiveConfig{Ratio: 0.3, Leak: 10 * time.Millisecond})
	for range 20 {
		before := microsIn(b)
		var kept, given, granted atomic.Int64
		parallel(16, func(int) {
			for range 1000 {
				c := pricedCauses()[rand.IntN(len(pricedCauses()))]
				switch {
				case rand.IntN(3) == 0:
					b.RecordSuccess()
					given.Add(1)
				case b.TryTake(c.cause):
					granted.Add(1)
					o := allOutcomes[rand.IntN(len(allOutcomes))]
					b.Settle(c.cause, o)
					if o != retrybudget.Refused && (!c.refundable || o != retrybudget.Succeeded && o != retrybudget.Answered) {
						kept.Add(c.price)
					}
				}
				if level := microsIn(b); level < aToken-dearestTake {
					t.Errorf("level %d", level)
				}
			}
		})
		assert.LessOrEqual(t, kept.Load(), before+300_000*given.Load()+dearestTake-aToken)
		assert.Positive(t, granted.Load())
	}
}

// While no time passes nothing leaks, so every millionth must be there: each
// success is counted once, each price taken and given back once.
func TestAdaptiveBudget_exactUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 500_000}), newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 300})
		b := both(t, first, second)
		var kept, given, granted, refused atomic.Int64
		parallel(64, func(i int) {
			chance := rand.New(rand.NewPCG(3, uint64(i)))
			for range 3000 {
				c := pricedCauses()[chance.IntN(len(pricedCauses()))]
				switch {
				case chance.IntN(2) == 0:
					b.RecordSuccess()
					given.Add(1)
				case b.TryTake(c.cause):
					granted.Add(1)
					o := allOutcomes[chance.IntN(4)]
					b.Settle(c.cause, o)
					if !c.refundable || o != retrybudget.Succeeded && o != retrybudget.Answered {
						kept.Add(c.price)
					}
				default:
					refused.Add(1)
				}
			}
		})
		change := aDeposit*given.Load() - kept.Load()
		assert.Equal(t, 500_000*aToken+change, microsIn(first), "both pay")
		assert.Equal(t, 300*aToken+change, microsIn(second), "or neither")
		assert.Positive(t, granted.Load())
		assert.Positive(t, refused.Load())
	})
}

func TestAdaptiveBudget_concurrentTakersGetExactlyTheTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tokens := range []int{1, 7, 100} {
			b := newAdaptive(t, retrybudget.AdaptiveConfig{Reserve: 1})
			succeed(b, 10*(tokens-1)) // not settled yet
			var granted atomic.Int64
			parallel(64, func(int) { granted.Add(int64(takeAll(b, 1000))) })
			assert.Equal(t, int64(tokens), granted.Load())
			assert.Equal(t, int64(0), microsIn(b))
		}
	})
}
