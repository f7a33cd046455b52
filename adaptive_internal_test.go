package retrybudget

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// White-box: settle is given the time, because no clock of a test goes back.
func TestAdaptiveBudget_aClockThatGoesBackChangesNothing(t *testing.T) {
	t.Parallel()
	b, err := NewAdaptiveBudget(AdaptiveConfig{})
	require.NoError(t, err)
	const hour = int64(time.Hour)
	held := func() int64 { return b.held(b.spent.Load()) }
	for range 100 {
		b.RecordSuccess()
	}
	b.settle(2 * hour)
	before := held()
	assert.Greater(t, before, b.reserve)
	for _, now := range []int64{2 * hour, hour, 0, -hour, 2*hour - 1} {
		b.settle(now)
		assert.Equal(t, before, held(), "at %v", time.Duration(now))
		assert.Equal(t, 2*hour, b.last.Load())
	}
	b.settle(2*hour + int64(b.leak))
	assert.Equal(t, b.reserve+(before-b.reserve)/2, held(), "half after the leak's time, counted from the latest settlement")
}

// White-box: of many goroutines that settle the same interval one takes away what
// leaked in it.
func TestAdaptiveBudget_anIntervalLeaksOnce(t *testing.T) {
	t.Parallel()
	b, err := NewAdaptiveBudget(AdaptiveConfig{})
	require.NoError(t, err)
	const goroutines, rounds = 3, 20_000
	var round, arrived atomic.Int64
	defer round.Store(rounds)
	for range goroutines {
		go func() {
			for r := int64(1); r <= rounds; r++ {
				for round.Load() < r {
					runtime.Gosched() // all start at the same moment
				}
				b.settle(r * int64(b.leak))
				arrived.Add(1)
			}
		}()
	}
	for r := int64(1); r <= rounds; r++ {
		b.succ.Add(1000)
		over := b.held(b.spent.Load()) - b.reserve
		round.Store(r)
		for arrived.Load() < r*goroutines {
			runtime.Gosched()
		}
		require.Equal(t, b.reserve+over/2, b.held(b.spent.Load()), "round %d", r)
	}
}

// White-box: a counter that wraps around, after more successes than any process
// will see, is as good as any other.
func TestAdaptiveBudget_countersWrapAround(t *testing.T) {
	t.Parallel()
	b, err := NewAdaptiveBudget(AdaptiveConfig{})
	require.NoError(t, err)
	const start = ^uint64(0) - 4
	b.last.Store(math.MaxInt64) // no leak
	b.succ.Store(start)
	b.spent.Store(start*b.ratio - uint64(b.reserve))
	for range 10 {
		b.RecordSuccess()
	}
	assert.Equal(t, b.reserve+micro, b.held(b.spent.Load()))
	granted := 0
	for b.TryTake(Cause{}) {
		granted++
	}
	assert.Equal(t, 3, granted)
}

// White-box: the layout is the point. Successes must not slow down failures of
// the same method, nor the other way round, and neither those of a neighbour.
func TestBudgets_fillWholeCacheLines(t *testing.T) {
	t.Parallel()
	const line = 64
	var a AdaptiveBudget
	assert.Equal(t, uintptr(line), unsafe.Offsetof(a.spent), "succ is alone on the first")
	assert.Equal(t, uintptr(2*line), unsafe.Sizeof(a))
	assert.Equal(t, uintptr(line), unsafe.Sizeof(Throttle{}))
	assert.Equal(t, uintptr(line), unsafe.Sizeof(*TokenBucket{}.successes))
}
