package retrybudget

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
)

// The defaults and limits of [AdaptiveConfig].
const (
	defaultReserve       = 2
	defaultTargetReserve = 3 // of the second budget of Adaptive
	maxReserve           = 1_000_000
	defaultLeak          = 2 * time.Second
	minLeak              = time.Millisecond
	maxLeak              = time.Hour
)

// micro is one token in the unit of an [AdaptiveBudget], a millionth. What
// leaks between two failures is a small part of the level: in thousandths it
// would be rounded up to several times as much.
const micro = 1_000_000

// The price of a retry. A timeout and RESOURCE_EXHAUSTED say that the
// dependency is short of capacity, so retries after them cost more than their
// own work.
const (
	plainPrice    = micro
	overloadPrice = micro * 3 / 2
)

// AdaptiveConfig describes an [AdaptiveBudget]. The zero value is valid:
// reserve 2, ratio 0.1, leak 2 s.
type AdaptiveConfig struct {
	// Reserve is how many tokens are there from the start and never leak, so
	// that a new or slow client can retry before it has earned anything. 0
	// means 2; from 1 to 1,000,000. There is no budget without a reserve:
	// tokens above it leak away before a client of less than five calls a
	// second has collected a whole one.
	Reserve int
	// Ratio is what one successful call deposits, in tokens. 0 means 0.1. It
	// must be a whole number of thousandths, from 0.001 to 1.
	Ratio float64
	// Leak is how fast tokens above the reserve are lost: what is there now is
	// half of it after this time without a success. In steady traffic the
	// level settles at Reserve + Ratio × successes in this time. 0 means 2 s;
	// from 1 ms to 1 h.
	Leak time.Duration
}

// AdaptiveBudget is a [Budget] without a capacity to choose: its burst follows
// the client's own successful traffic, and a retry that worked costs nothing.
// It departs from [TokenBucket] in what it limits: failed retries.
//
//   - Each successful first attempt deposits Ratio tokens. Tokens above Reserve
//     leak, so that the largest burst is Reserve + Ratio × the successes of the
//     last two seconds or so, at any scale.
//   - A retry needs one whole token and takes 1 after UNAVAILABLE, 1.5 after a
//     timeout (the attempt's own, or a DEADLINE_EXCEEDED of the server) or
//     RESOURCE_EXHAUSTED, 1 after any other code; four times as much if the
//     failure carried the exhausted hint. The level may go below zero, to −5.
//   - When a retry after UNAVAILABLE ends OK or in an answer that is not
//     retryable, its price comes back. After any other code it never does: a
//     retry that succeeds there still took capacity from somebody else.
//
// Over any window, the price of retries that is not given back is at most
// (level + refundable price in flight) at its start + Ratio × successful calls
// in it + 5. Without successes retries end after that, however many calls fail.
//
// Its intended use is one for each method and one for each target: [Adaptive].
//
// Make one with [NewAdaptiveBudget]; the zero value grants nothing. It is safe
// for concurrent use and takes no lock: a success is one atomic addition, and
// the clock is read only when a retry is wanted.
type AdaptiveBudget struct {
	// succ counts the successful first attempts. It is alone on its cache line:
	// every call writes it, and a failure reads all the rest.
	succ atomic.Uint64
	_    [56]byte

	// spent is what left the level so far, less what was given back and the
	// reserve: the level is succ × ratio − spent, in millionths. Computing it
	// from succ claims every success exactly once, in whatever order goroutines
	// come. Both wrap around; only the difference counts.
	spent atomic.Uint64
	// last is the time of the last settlement, in nanoseconds since start.
	// Whoever moves it forward, and nobody else, takes away what leaked until
	// then.
	last    atomic.Int64
	start   time.Time
	reserve int64
	ratio   uint64
	leak    uint64
}

var (
	_ Budget        = (*AdaptiveBudget)(nil)
	_ LevelReporter = (*AdaptiveBudget)(nil)
	_ BudgetConfig  = AdaptiveConfig{}
)

// NewAdaptiveBudget returns a budget as cfg describes it, or an error that names
// the field and the value that it does not accept.
func NewAdaptiveBudget(cfg AdaptiveConfig) (*AdaptiveBudget, error) {
	reserve, ratio, leak := cfg.Reserve, cfg.Ratio, cfg.Leak
	if reserve == 0 {
		reserve = defaultReserve
	}
	if ratio == 0 {
		ratio = defaultRatio
	}
	if leak == 0 {
		leak = defaultLeak
	}
	switch {
	case reserve < 1 || reserve > maxReserve:
		return nil, fmt.Errorf("retrybudget: AdaptiveConfig.Reserve %d is not in 1..%d", cfg.Reserve, maxReserve)
	case leak < minLeak || leak > maxLeak:
		return nil, fmt.Errorf("retrybudget: AdaptiveConfig.Leak %v is not in %v..%v", cfg.Leak, minLeak, maxLeak)
	}
	thousandths, err := inThousandths(ratio, 1)
	if err != nil {
		return nil, fmt.Errorf("retrybudget: AdaptiveConfig.Ratio %w", err)
	}
	b := &AdaptiveBudget{
		start:   time.Now(),
		reserve: int64(reserve) * micro,
		ratio:   uint64(thousandths) * (micro / milli),
		leak:    uint64(leak),
	}
	b.spent.Store(-uint64(b.reserve))
	return b, nil
}

// NewBudget returns [NewAdaptiveBudget] of the configuration.
func (cfg AdaptiveConfig) NewBudget() (Budget, error) {
	b, err := NewAdaptiveBudget(cfg)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Adaptive makes every retry pay in two [AdaptiveBudget]s or in neither: one of
// the method (reserve 2) and one of the target (reserve 3). The first keeps one
// broken method from eating the retries of the others, the second keeps many
// methods of one target, failing together, from adding up their reserves.
//
// For other settings, say it in full:
//
//	Both(PerMethod(AdaptiveConfig{Ratio: 0.05}), PerTarget(AdaptiveConfig{Ratio: 0.05, Reserve: 3}))
func Adaptive() BudgetFactory {
	return Both(
		PerMethod(AdaptiveConfig{Reserve: defaultReserve}),
		PerTarget(AdaptiveConfig{Reserve: defaultTargetReserve}),
	)
}

// RecordSuccess counts a success. What it deposits is computed when a retry is
// wanted.
func (b *AdaptiveBudget) RecordSuccess() { b.succ.Add(1) }

// RecordFailure does nothing: a failure neither costs nor earns.
func (b *AdaptiveBudget) RecordFailure(Cause) {}

// TryTake takes the price of one retry if there is at least one whole token.
func (b *AdaptiveBudget) TryTake(c Cause) bool {
	b.settle(b.now())
	price := adaptivePrice(&c)
	for {
		spent := b.spent.Load()
		if b.held(spent) < micro {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+price) {
			return true
		}
	}
}

// Settle gives the price back when the retry after UNAVAILABLE succeeded or was
// answered, and when another budget refused it.
func (b *AdaptiveBudget) Settle(c Cause, o Outcome) {
	worked := o == Succeeded || o == Answered
	if o == Refused || worked && refundable(&c) {
		b.spent.Add(-adaptivePrice(&c))
	}
}

// Level returns the tokens in the budget at this moment, below zero after
// retries that cost more than was there, and 1,000,000,000 as capacity: the most
// it is ever said to hold, far above what the leak leaves of any real traffic.
// Leak and deposits are shown as if settled now; nothing changes.
func (b *AdaptiveBudget) Level() (tokens, capacity float64) {
	last, held := b.last.Load(), b.heldNow()
	if held > b.reserve { // else there is nothing to leak and no need for the clock
		held = min(b.leaked(held, b.now()-last), maxCapacity*micro)
	}
	return float64(held) / micro, maxCapacity
}

func (b *AdaptiveBudget) now() int64 { return int64(time.Since(b.start)) }

// held returns the level when spent is b.spent. The caller must have loaded
// spent first: then a success that comes between the two makes the result at
// most too high for the past and right for now, and a compare-and-swap of spent
// finds out about everything else.
func (b *AdaptiveBudget) held(spent uint64) int64 {
	return int64(b.succ.Load()*b.ratio - spent)
}

// heldNow returns a level that the budget really has.
func (b *AdaptiveBudget) heldNow() int64 {
	for {
		spent := b.spent.Load()
		held := b.held(spent)
		if b.spent.Load() == spent {
			return held
		}
	}
}

// settle takes away what leaked until now. Of several goroutines that come at
// once one does it, for the whole interval since the last time. A clock that
// stands still or goes back changes nothing.
func (b *AdaptiveBudget) settle(now int64) {
	last := b.last.Load()
	if now <= last || !b.last.CompareAndSwap(last, now) {
		return
	}
	for {
		spent := b.spent.Load()
		held := b.held(spent)
		lost := held - b.leaked(held, now-last)
		if lost == 0 || b.spent.CompareAndSwap(spent, spent+uint64(lost)) {
			return
		}
	}
}

// leaked returns what is left of a level after dt nanoseconds. Deposits of the
// interval are in it and leak like the rest: tokens that came in steadily over
// a long time without a failure end up as those of the last few seconds would,
// and no clock is needed when they come.
func (b *AdaptiveBudget) leaked(level, dt int64) int64 {
	over := level - b.reserve
	if over <= 0 || dt <= 0 {
		return level
	}
	hi, lo := bits.Mul64(uint64(over), b.leak)
	kept, _ := bits.Div64(hi, lo, b.leak+uint64(dt)) // below over, so it fits
	return b.reserve + int64(kept)
}

func adaptivePrice(c *Cause) uint64 {
	price := uint64(plainPrice)
	if c.AttemptTimeout || c.Code == codes.DeadlineExceeded || c.Code == codes.ResourceExhausted {
		price = overloadPrice
	}
	if c.Exhausted {
		price *= hintedPrice
	}
	return price
}

// refundable reports whether the price of a retry after c comes back when it
// works.
func refundable(c *Cause) bool { return c.Code == codes.Unavailable && !c.AttemptTimeout }
