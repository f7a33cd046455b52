package retrybudget_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
)

// FuzzTokenBucket runs random operations beside a model that counts in whole
// thousandths.
func FuzzTokenBucket(f *testing.F) {
	f.Add(uint16(0), uint16(0), uint16(0), []byte("sstthhrrxx"))
	f.Add(uint16(1), uint16(999), uint16(1), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(uint16(3), uint16(100), uint16(3), []byte{2, 2, 1, 1, 1, 4, 4, 4, 0, 0})
	f.Fuzz(func(t *testing.T, capacity, ratio, initial uint16, ops []byte) {
		cfg := retrybudget.TokenBucketConfig{Capacity: int(capacity), Ratio: float64(ratio%1000+1) / 1000, Initial: int(initial)}
		if capacity == 0 {
			cfg.Initial %= 21
		} else {
			cfg.Initial %= int(capacity) + 1
		}
		b := newTokenBucket(t, cfg)

		limit, deposit, level := int64(capacity)*1000, int64(ratio%1000)+1, int64(cfg.Initial)*1000
		if capacity == 0 {
			limit = 20_000
		}
		type grant struct {
			cause retrybudget.Cause
			paid  int64
		}
		var open []grant
		for i, op := range ops {
			switch op % 8 {
			case 0, 1:
				b.RecordSuccess()
				level = min(level+deposit, limit)
			case 2, 3, 4:
				cause, price := plain, min(1000, limit)
				if op%8 == 4 {
					cause, price = hinted, min(4000, limit)
				}
				granted := level >= price
				require.Equal(t, granted, b.TryTake(cause), "operation %d", i)
				if granted {
					level -= price
					open = append(open, grant{cause, price})
				}
			case 5:
				b.RecordFailure(hinted)
			default:
				if len(open) == 0 {
					continue
				}
				g := open[len(open)-1]
				open = open[:len(open)-1]
				o := retrybudget.Outcome(op/8%5) + retrybudget.Succeeded
				b.Settle(g.cause, o)
				if o == retrybudget.Refused {
					level = min(level+g.paid, limit)
				}
			}
			require.Equal(t, level, tokensIn(b), "operation %d", i)
		}
	})
}

// parallel runs f in n goroutines that start together.
func parallel(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// However many ask at once, a token is granted once.
func TestTokenBucket_concurrentTakersGetExactlyTheTokens(t *testing.T) {
	t.Parallel()
	for _, initial := range []int{0, 1, 7, 100} {
		b := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1_000_000, Initial: initial})
		var granted atomic.Int64
		parallel(64, func(int) { granted.Add(int64(takeAll(b, 1000))) })
		assert.Equal(t, int64(initial), granted.Load())
		assert.Equal(t, int64(0), tokensIn(b))
	}
}

// Not a thousandth gets lost between goroutines that take and give.
func TestTokenBucket_exactUnderLoad(t *testing.T) {
	t.Parallel()
	const goroutines, each, initial = 64, 50_000, 500_000
	b := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1_000_000, Initial: initial})
	var granted, given atomic.Int64
	parallel(goroutines, func(i int) {
		chance := rand.New(rand.NewPCG(1, uint64(i)))
		taken, deposits := int64(0), int64(0)
		for range each {
			switch chance.IntN(4) {
			case 0:
				b.RecordSuccess()
				deposits++
			case 1:
				if b.TryTake(hinted) {
					taken += 4
				}
			case 2:
				if b.TryTake(plain) {
					taken++
				}
			case 3:
				if b.TryTake(plain) {
					b.Settle(plain, retrybudget.Refused)
				}
			}
		}
		granted.Add(taken)
		given.Add(deposits)
	})
	assert.Equal(t, initial*1000-1000*granted.Load()+100*given.Load(), tokensIn(b))
	assert.Positive(t, granted.Load())
}

// Retries in a window never exceed the tokens at its start and a tenth of the
// successes in it, and the level never leaves its range.
func TestTokenBucket_boundUnderLoad(t *testing.T) {
	t.Parallel()
	const goroutines, windows, each = 16, 20, 1000
	b := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 10, Ratio: 0.3})
	for range windows {
		before := tokensIn(b)
		var granted, given atomic.Int64
		parallel(goroutines, func(int) {
			taken, deposits := int64(0), int64(0)
			for range each {
				switch rand.IntN(3) {
				case 0:
					b.RecordSuccess()
					deposits++
				case 1:
					if b.TryTake(plain) {
						taken++
						b.Settle(plain, retrybudget.Succeeded)
					}
				default:
					if level := tokensIn(b); level < 0 || level > 10_000 {
						t.Errorf("level %d", level)
					}
				}
			}
			granted.Add(taken)
			given.Add(deposits)
		})
		assert.LessOrEqual(t, 1000*granted.Load(), before+300*given.Load())
		assert.Positive(t, granted.Load())
	}
}

// A bucket that fills up and is drawn on at the same moment goes on to count
// successes.
func TestTokenBucket_fullIsNotForever(t *testing.T) {
	t.Parallel()
	b := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1, Ratio: 0.5})
	for round := range 20_000 {
		parallel(4, func(i int) {
			if i%2 == 0 {
				succeed(b, 3)
			} else {
				takeAll(b, 2)
			}
		})
		before := tokensIn(b)
		succeed(b, 1)
		require.Equal(t, min(before+500, 1000), tokensIn(b), "round %d", round)
	}
}
