package retrybudget

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// latencyWarmup is how many successes are all measured; after them one in
	// latencySample is, at random.
	latencyWarmup = 16
	latencySample = 16 // a power of two, so that % is a mask
	// latencyWeight is the weight of one measurement in the moving average, as
	// a divisor.
	latencyWeight = 8
	// latencyLife is how long a measurement is believed.
	latencyLife = 10 * time.Second
)

// latency estimates the time that an attempt of a method needs: a moving
// average of successful attempts. Updates may overtake each other and lose one;
// an estimate can stand that, and the hot path needs no lock.
type latency struct {
	mean  atomic.Int64 // nanoseconds
	last  atomic.Int64 // time of the last measurement, nanoseconds since the Retrier's start
	count atomic.Uint32
}

// copyFrom makes l, which nobody uses yet, know what other knows.
func (l *latency) copyFrom(other *latency) {
	l.mean.Store(other.mean.Load())
	l.last.Store(other.last.Load())
	l.count.Store(other.count.Load())
}

// sample reports whether the next success is to be measured. Reading the clock
// twice for every call would cost more than the rest of the interceptor.
func (l *latency) sample() bool {
	return l.cold() || rand.Uint32()%latencySample == 0
}

// cold reports whether every success is still measured.
func (l *latency) cold() bool { return l.count.Load() < latencyWarmup }

func (l *latency) record(took time.Duration, now int64) {
	mean := l.mean.Load()
	if l.count.Load() == 0 || now-l.last.Load() > int64(latencyLife) {
		mean = int64(took)
	} else {
		mean += (int64(took) - mean) / latencyWeight
	}
	l.mean.Store(mean)
	l.last.Store(now)
	if l.count.Load() < latencyWarmup {
		l.count.Add(1)
	}
}

// estimate returns the time an attempt needs, 0 when that is not known or too
// old.
func (l *latency) estimate(now int64) time.Duration {
	if l.count.Load() == 0 || now-l.last.Load() > int64(latencyLife) {
		return 0
	}
	return time.Duration(l.mean.Load())
}
