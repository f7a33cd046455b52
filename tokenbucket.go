package retrybudget

import (
	"fmt"
	"math"
	"sync/atomic"
)

// The defaults and limits of [TokenBucketConfig].
const (
	defaultCapacity = 20
	defaultRatio    = 0.1
	maxCapacity     = 1_000_000_000
)

// TokenBucketConfig describes a [TokenBucket]. The zero value is valid and is
// the library's default budget: capacity 20, ratio 0.1, empty at the start.
type TokenBucketConfig struct {
	// Capacity is the most tokens the bucket holds, and so the largest burst
	// of retries. 0 means 20; at most 1,000,000,000.
	Capacity int
	// Ratio is what one successful call deposits, in tokens: 0.1 lets retries
	// be a tenth of the successful traffic. 0 means 0.1. It must be a whole
	// number of thousandths, from 0.001 to 1.
	Ratio float64
	// Initial is how many tokens are there at the start, before any call
	// succeeded. The default is 0: a process that starts in the middle of an
	// outage has earned no retries. At most Capacity.
	Initial int
}

// TokenBucket is the default [Budget]: successful first attempts deposit a
// fraction of a token each, every retry takes a whole one, and what does not
// fit is lost. Over any window, retries ≤ tokens at its start + Ratio ×
// successful calls in it.
//
// A retry after a failure that carried the exhausted hint needs and takes four
// tokens, or the whole capacity if that is less. Nothing is given back when a
// retry succeeds, is answered, or is abandoned during its wait.
//
// Make one with [NewTokenBucket]; the zero value grants nothing. It is safe for
// concurrent use and takes no lock: a success is one atomic addition, or one
// load when the bucket is full.
type TokenBucket struct {
	successes *counter
	// spent is, above its lowest bit, what left the bucket so far, and what did
	// not fit into it, less what was there at the start: the level is successes ×
	// ratio − spent, in thousandths, at most the capacity. Only the difference
	// counts. The lowest bit is hasRoom.
	spent    atomic.Int64
	capacity int64
	ratio    int32
}

// hasRoom is cleared while the bucket is full, so that a success need not be counted.
// It may be set although the bucket is full, which costs an addition, but never the
// other way round: what a success deposits would be lost. Whoever takes tokens sets
// it in the same step, so nobody can clear it for a level that is past.
const hasRoom = 1

// counter is alone on its cache line: every call of a method adds to it, and
// neither neighbours in memory nor the rest of the bucket, which every call
// reads, must pay for that.
type counter struct {
	atomic.Int64
	_ [56]byte
}

var (
	_ Budget        = (*TokenBucket)(nil)
	_ LevelReporter = (*TokenBucket)(nil)
	_ BudgetConfig  = TokenBucketConfig{}
)

// NewTokenBucket returns a bucket as cfg describes it, or an error that names
// the field and the value that it does not accept.
func NewTokenBucket(cfg TokenBucketConfig) (*TokenBucket, error) {
	capacity, ratio := cfg.Capacity, cfg.Ratio
	if capacity == 0 {
		capacity = defaultCapacity
	}
	if ratio == 0 {
		ratio = defaultRatio
	}
	switch {
	case capacity < 0 || capacity > maxCapacity:
		return nil, fmt.Errorf("retrybudget: TokenBucketConfig.Capacity %d is not in 1..%d", cfg.Capacity, maxCapacity)
	case cfg.Initial < 0 || cfg.Initial > capacity:
		return nil, fmt.Errorf("retrybudget: TokenBucketConfig.Initial %d is not in 0..Capacity (%d)", cfg.Initial, capacity)
	}
	thousandths, err := inThousandths(ratio, 1)
	if err != nil {
		return nil, fmt.Errorf("retrybudget: TokenBucketConfig.Ratio %w", err)
	}
	b := &TokenBucket{successes: new(counter), capacity: int64(capacity) * milli, ratio: int32(thousandths)}
	b.spent.Store(-int64(cfg.Initial) * milli << 1)
	if cfg.Initial < capacity {
		b.spent.Add(hasRoom)
	}
	return b, nil
}

// NewBudget returns [NewTokenBucket] of the configuration.
func (cfg TokenBucketConfig) NewBudget() (Budget, error) {
	b, err := NewTokenBucket(cfg)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// inThousandths converts v to fixed point. It refuses what is not a whole
// number of thousandths, because a budget that rounds its ratio lies about it:
// 0.15 must not become 0.1.
func inThousandths(v, most float64) (int64, error) {
	t := math.Round(v * milli)
	switch {
	case math.IsNaN(v) || v <= 0 || v > most:
		return 0, fmt.Errorf("%v is not in 0.001..%v", v, most)
	case math.Abs(v*milli-t) > 1e-6 || t < 1:
		return 0, fmt.Errorf("%v is not a whole number of thousandths", v)
	}
	return int64(t), nil
}

// RecordSuccess deposits the ratio, up to the capacity.
func (b *TokenBucket) RecordSuccess() {
	spent := b.spent.Load()
	if spent&hasRoom == 0 {
		return
	}
	n := b.successes.Add(1)
	if n*int64(b.ratio)-spent>>1 >= b.capacity {
		b.spent.CompareAndSwap(spent, spent&^hasRoom)
	}
}

// RecordFailure does nothing: a failure neither costs nor earns.
func (b *TokenBucket) RecordFailure(Cause) {}

// TryTake takes the price of one retry if the bucket holds it.
func (b *TokenBucket) TryTake(c Cause) bool {
	price := b.price(c.Exhausted)
	if price == 0 {
		return false
	}
	return b.take(price, price) > 0
}

// take takes up to most out of the bucket, but nothing if that is below least, and
// returns how much.
func (b *TokenBucket) take(least, most int64) int64 {
	for {
		spent := b.spent.Load()
		held := b.held(spent)
		level := min(held, b.capacity)
		taken := min(level, most)
		if taken < least {
			return 0
		}
		if b.spent.CompareAndSwap(spent, (spent>>1+held-level+taken)<<1|hasRoom) {
			return taken
		}
	}
}

// give puts n back. What that is above the capacity, the next take takes away.
func (b *TokenBucket) give(n int64) { b.spent.Add(-n << 1) }

// held returns the level when spent is b.spent, and above the capacity what did not
// fit. The caller must have loaded spent first: then a success that comes between
// the two makes the result at most too high for the past and right for now, and a
// compare-and-swap of spent finds out about everything else.
func (b *TokenBucket) held(spent int64) int64 {
	return b.successes.Load()*int64(b.ratio) - spent>>1
}

// Settle gives the price back when the retry was refused elsewhere, and only
// then.
func (b *TokenBucket) Settle(c Cause, o Outcome) {
	if o == Refused {
		b.give(b.price(c.Exhausted))
	}
}

// Level returns the tokens in the bucket and its capacity.
func (b *TokenBucket) Level() (tokens, capacity float64) {
	if b.capacity == 0 {
		return 0, 0
	}
	for {
		spent := b.spent.Load()
		held := b.held(spent)
		if b.spent.Load() == spent { // else it may be a level that never was
			return float64(min(held, b.capacity)) / milli, float64(b.capacity) / milli
		}
	}
}

func (b *TokenBucket) price(exhausted bool) int64 {
	if exhausted {
		return min(hintedPrice*milli, b.capacity)
	}
	return min(milli, b.capacity)
}
