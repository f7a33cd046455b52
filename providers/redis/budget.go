package redis

import (
	"sync/atomic"

	"github.com/retrybudget/retrybudget"
)

// budget is the part of a fleet's bucket that one process has. Calls only touch
// the atomics; the rest belongs to the goroutine of the Fleet.
type budget struct {
	// successes are those not yet reported. Every call of a method counts here,
	// so it has a cache line of its own, with the one thing that it looks at.
	successes atomic.Int64
	awake     atomic.Bool // the goroutine looks after it
	_         [52]byte

	hand  atomic.Int64 // thousandths of tokens that may be spent at once
	asked atomic.Bool  // a retry wanted tokens since the goroutine last looked
	away  atomic.Bool  // Redis is away; see fold
	pool  atomic.Int64 // what the pool held by the last answer

	// Read only.
	fleet *Fleet
	set   *settings
	low   int64  // in hand, below which more is asked for
	key   string // in Redis

	link link // the goroutine's
}

var (
	_ retrybudget.Budget        = (*budget)(nil)
	_ retrybudget.LevelReporter = (*budget)(nil)
)

// RecordSuccess counts a success for the next report.
func (b *budget) RecordSuccess() {
	b.successes.Add(1)
	if !b.awake.Load() {
		b.fleet.wake(b)
	}
}

// RecordFailure does nothing: a failure neither costs nor earns.
func (b *budget) RecordFailure(retrybudget.Cause) {}

// TryTake takes the price of a retry if it is in hand.
func (b *budget) TryTake(c retrybudget.Cause) bool {
	price := b.set.price(c.Exhausted)
	for {
		hand := b.hand.Load()
		if hand < price {
			b.ask()
			return false
		}
		if b.hand.CompareAndSwap(hand, hand-price) {
			if hand-price < b.low {
				b.ask()
			}
			return true
		}
	}
}

// Settle gives the price back when the retry was refused elsewhere, and only
// then.
func (b *budget) Settle(c retrybudget.Cause, o retrybudget.Outcome) {
	if o == retrybudget.Refused {
		b.add(b.set.price(c.Exhausted), b.set.most)
	}
}

// Level returns what retries of this process could take: what is in hand and,
// while the budget is shared, what the pool held by the last answer; and the
// capacity of the bucket that it works with.
func (b *budget) Level() (tokens, capacity float64) {
	hand := b.hand.Load()
	if b.away.Load() {
		return float64(hand) / milli, float64(b.set.most) / milli
	}
	return float64(min(hand+b.pool.Load(), b.set.capacity)) / milli, float64(b.set.capacity) / milli
}

// ask makes the goroutine look for more. In a storm it has been asked already.
func (b *budget) ask() {
	if !b.asked.Load() {
		b.asked.Store(true)
		b.fleet.nudge()
	}
	if !b.awake.Load() {
		b.fleet.wake(b)
	}
}

// add puts tokens into the hand, up to a limit; what is above it is lost.
func (b *budget) add(tokens, most int64) {
	for {
		hand := b.hand.Load()
		if b.hand.CompareAndSwap(hand, max(hand, min(hand+tokens, most))) {
			return
		}
	}
}

// takeAbove takes out of the hand what is above keep.
func (b *budget) takeAbove(keep int64) int64 {
	for {
		hand := b.hand.Load()
		if hand <= keep {
			return 0
		}
		if b.hand.CompareAndSwap(hand, keep) {
			return hand - keep
		}
	}
}
