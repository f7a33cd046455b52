package retrybudget

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
)

// Backoff says how long to wait before a retry. Implementations must be safe
// for concurrent use and keep no state of a call: what they need is in the
// [BackoffInput]. A negative wait counts as zero.
//
// [ExponentialBackoff] is the default, [ConstantBackoff] the simplest.
type Backoff interface {
	// Wait returns the wait before the retry that in describes.
	Wait(in BackoffInput) time.Duration
}

// BackoffInput is what a [Backoff] may look at.
type BackoffInput struct {
	// Retry is 1 for the first retry of a call. It grows over all kinds of
	// errors and starts again from 1 after a server pushback, as gRFC A6 says.
	Retry int
	// Previous is the wait that the backoff gave for the retry before this one,
	// 0 for the first and after a server pushback.
	Previous time.Duration
	// Code and Err are the failure that asks for the retry.
	Code codes.Code
	Err  error
	// Call is the call, with the number of the failed attempt.
	Call CallInfo
}

// BackoffFunc is the plain form of a backoff, for [Policy.BackoffFunc] and
// [CallBackoffFunc]. It is the type of go-grpc-middleware's BackoffFunc, whose
// values fit without conversion: retry is 1 for the first retry.
type BackoffFunc = func(ctx context.Context, retry uint) time.Duration

// plainBackoff makes a [Backoff] of a BackoffFunc.
type plainBackoff struct{ f BackoffFunc }

func (p plainBackoff) Wait(in BackoffInput) time.Duration {
	return p.f(in.Call.Context, uint(max(in.Retry, 0)))
}

// ConstantBackoff waits the same time before every retry. Zero retries at once,
// still within attempts, deadline and budget; negative values are refused.
type ConstantBackoff time.Duration

// Wait returns the constant.
func (c ConstantBackoff) Wait(BackoffInput) time.Duration { return time.Duration(c) }

// NoMaxBackoff as ExponentialBackoff.Max leaves the growth unbounded.
const NoMaxBackoff = time.Duration(math.MaxInt64)

// The defaults of [ExponentialBackoff].
const (
	defaultInitialBackoff = 50 * time.Millisecond
	defaultMaxBackoff     = time.Second
	defaultMultiplier     = 2
	maxMultiplier         = 1_000_000
)

// ExponentialBackoff waits Initial·Multiplierⁿ⁻¹ before retry n, at most Max,
// and then applies Jitter. The zero value is the library's default: 50 ms,
// doubled, at most 1 s, full jitter. It never overflows, whatever n.
type ExponentialBackoff struct {
	// Initial is the wait before the first retry. 0 means 50 ms.
	Initial time.Duration
	// Multiplier is the growth from one retry to the next, at least 1 and at
	// most 1,000,000. 0 means 2.
	Multiplier float64
	// Max bounds the wait before jitter; only [JitterA6] can exceed it, by a
	// fifth. 0 means 1 s, or Initial if that is longer; [NoMaxBackoff] none.
	Max time.Duration
	// Jitter spreads the waits of many clients. The default is [JitterFull].
	Jitter Jitter
}

// Jitter is how chance enters a backoff.
type Jitter uint8

// The kinds of jitter; d is the wait before jitter.
const (
	// JitterFull: uniform in [0, d]. The best spread, and the default.
	JitterFull Jitter = iota
	// JitterNone: exactly d.
	JitterNone
	// JitterA6: uniform in [0.8·d, 1.2·d], as gRFC A6 says.
	JitterA6
	// JitterEqual: uniform in [d/2, d].
	JitterEqual
	// JitterDecorrelated: uniform in [Initial, 3·previous wait], at most Max;
	// the multiplier plays no part.
	JitterDecorrelated
)

// Wait returns the wait before retry in.Retry; numbers below 1 count as 1.
// Fields with values that [New] would refuse count as zero here.
func (b ExponentialBackoff) Wait(in BackoffInput) time.Duration {
	return b.wait(in.Retry, in.Previous)
}

func (b ExponentialBackoff) wait(retry int, before time.Duration) time.Duration {
	b = b.withDefaults()
	if b.Jitter == JitterDecorrelated {
		previous, most := uint64(max(before, b.Initial)), uint64(b.Max)
		if previous <= most/3 {
			most = 3 * previous
		}
		return time.Duration(between(uint64(b.Initial), most))
	}
	d := b.grown(retry)
	switch b.Jitter {
	case JitterNone:
		return time.Duration(d)
	case JitterA6:
		return clampWait(between(d-d/5, d+d/5), NoMaxBackoff)
	case JitterEqual:
		return time.Duration(between(d/2, d))
	default:
		return time.Duration(between(0, d))
	}
}

func (b ExponentialBackoff) withDefaults() ExponentialBackoff {
	if b.Initial <= 0 {
		b.Initial = defaultInitialBackoff
	}
	if !validMultiplier(b.Multiplier) {
		b.Multiplier = defaultMultiplier
	}
	if b.Max < b.Initial {
		b.Max = max(defaultMaxBackoff, b.Initial)
	}
	return b
}

func validMultiplier(m float64) bool { return m >= 1 && m <= maxMultiplier }

func (b ExponentialBackoff) validate(field string) error {
	switch initial := b.withDefaults().Initial; {
	case b.Initial < 0:
		return fmt.Errorf("retrybudget: %s.Initial %v is negative", field, b.Initial)
	case b.Multiplier != 0 && !validMultiplier(b.Multiplier):
		return fmt.Errorf("retrybudget: %s.Multiplier %v is not in 1..%d", field, b.Multiplier, maxMultiplier)
	case b.Max != 0 && b.Max < initial:
		return fmt.Errorf("retrybudget: %s.Max %v is below Initial %v", field, b.Max, initial)
	case b.Jitter > JitterDecorrelated:
		return fmt.Errorf("retrybudget: %s.Jitter %d is not a known kind", field, b.Jitter)
	}
	return nil
}

// grown returns min(Max, Initial·Multiplierʳ⁻¹), by repeated squaring. Floats are
// left at the door: their products overflow differently on different platforms.
func (b ExponentialBackoff) grown(retry int) uint64 {
	growth, square := number{mantissa: 1 << 63, exponent: -63}, toNumber(b.Multiplier)
	for n := max(retry, 1) - 1; n > 0; n >>= 1 {
		if n&1 == 1 {
			growth = growth.times(square)
		}
		square = square.times(square)
	}
	return min(growth.of(uint64(b.Initial)), uint64(b.Max))
}

// number is mantissa·2^exponent of at least 1, with the mantissa's top bit set.
type number struct {
	mantissa uint64
	exponent int
}

// hugeExponent is where exponents stop growing: no duration is that long.
const hugeExponent = 1 << 10

// toNumber converts a multiplier, exactly.
func toNumber(m float64) number {
	fraction, exponent := math.Frexp(m) // m = fraction·2^exponent, fraction in [0.5, 1)
	return number{uint64(fraction*(1<<53)) << 11, exponent - 64}
}

// times returns n·m, rounded down.
func (n number) times(m number) number {
	hi, lo := bits.Mul64(n.mantissa, m.mantissa)
	shift := bits.LeadingZeros64(hi) // 0 or 1
	return number{
		mantissa: hi<<shift | lo>>(64-shift),
		exponent: min(n.exponent+m.exponent+64-shift, hugeExponent),
	}
}

// of returns n·d, rounded down, or the largest uint64 when that does not fit.
func (n number) of(d uint64) uint64 {
	hi, lo := bits.Mul64(d, n.mantissa)
	switch e := n.exponent; {
	case hi == 0 && lo == 0:
		return 0
	case e > 0 || e > -64 && hi>>(-e) != 0:
		return math.MaxUint64
	case e > -64:
		return hi<<(64+e) | lo>>(-e)
	default:
		return hi >> (-e - 64)
	}
}

// between returns a uniform random number in [low, high]. high is at most
// 1.2·MaxInt64, so that the width of the range fits.
func between(low, high uint64) uint64 {
	return low + rand.Uint64N(high-low+1)
}

func clampWait(d uint64, most time.Duration) time.Duration {
	return time.Duration(min(d, uint64(most)))
}

// jitterUp lengthens a server's delay by up to a fifth, at random, so that the
// clients it turned away together do not come back together.
func jitterUp(d time.Duration) time.Duration {
	return clampWait(between(uint64(d), uint64(d)+uint64(d)/5), NoMaxBackoff)
}

// validateBackoff refuses values of the library's own types that make no sense.
func validateBackoff(field string, b Backoff) error {
	switch b := b.(type) {
	case ExponentialBackoff:
		return b.validate(field)
	case *ExponentialBackoff:
		if b == nil {
			return fmt.Errorf("retrybudget: %s is a nil *ExponentialBackoff", field)
		}
		return b.validate(field)
	case ConstantBackoff:
		if b < 0 {
			return fmt.Errorf("retrybudget: %s %v is negative", field, time.Duration(b))
		}
	case *ConstantBackoff:
		if b == nil || *b < 0 {
			return fmt.Errorf("retrybudget: %s is nil or negative", field)
		}
	}
	return nil
}
