package redis_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// drain takes all that a fleet has, for a second.
func drain(all ...retrybudget.Budget) (total int) {
	for range 100 {
		for _, b := range all {
			total += take(b, 100)
		}
		settle(10 * time.Millisecond)
	}
	return total
}

func TestLost_wipedBucketStartsEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full})
		b := budgetOf(t, f)
		assert.Equal(t, 20, drain(b), "Initial, once")
		for range 5 {
			w.model.wipe()
			assert.Zero(t, drain(b))
		}
		assert.Equal(t, uint64(5), f.Stats().Lost)
		succeed(b, 30)
		settle(200 * time.Millisecond)
		assert.Equal(t, 3, drain(b), "and is filled as before")
	})
}

// A process that never saw the bucket cannot know that there was one. Those that
// did empty what it made as soon as they come.
func TestLost_newProcessAfterAWipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full})
		old := budgetOf(t, f)
		assert.Equal(t, 20, drain(old))
		settle(time.Second)
		w.model.wipe()
		fresh := budgetOf(t, w.fleet(t, redis.Config{Bucket: full}))
		take(fresh, 1)
		settle(10 * time.Millisecond)
		take(old, 1) // speaks up
		settle(150 * time.Millisecond)
		assert.Equal(t, 4, drain(old, fresh), "the lease of a single exchange")
		assert.Equal(t, uint64(1), f.Stats().Lost)
	})
}

// After an idle time nothing follows from another bucket being there.
func TestLost_returningProcessEmptiesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full, Idle: time.Second})
		old := budgetOf(t, f)
		assert.Equal(t, 20, drain(old))
		settle(10 * time.Second)
		w.model.wipe()
		fresh := budgetOf(t, w.fleet(t, redis.Config{Bucket: full}))
		take(fresh, 1)
		settle(time.Second)
		assert.Equal(t, 20, drain(old, fresh))

		settle(10 * time.Second)
		w.model.wipe()
		assert.Zero(t, drain(old), "but it does not begin a bucket with tokens")
	})
}

// A restart with an old file, or a fail-over to a replica that was behind: what
// was spent since is in the bucket again.
func TestLost_olderStateIsFoundOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full})
		b := budgetOf(t, f)
		take(b, 1)
		settle(time.Second)
		restore := w.model.snapshot()
		assert.Equal(t, 20, drain(b))
		for range 5 {
			restore()
			assert.Zero(t, drain(b))
		}
		assert.Equal(t, uint64(5), f.Stats().Lost)
	})
}

// What comes too late does nothing: neither its successes nor its lease count.
func TestLost_lateRequestsDoNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Replicas: 10})
		b := budgetOf(t, f)
		succeed(b, 100)
		settle(time.Second)
		before := w.model.tokens()
		w.change(func() { w.fault, w.stall = stalls, time.Second })
		succeed(b, 50)
		settle(10 * time.Second)
		assert.Equal(t, before, w.model.tokens())
		w.set(none)
		settle(5 * time.Second)
		assert.Equal(t, 10, drain(b))
	})
}

// The clock of Redis may jump: that takes tokens, if anything, and never makes
// one.
func TestLost_clockStepsMakeNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Second, time.Minute, 1000 * time.Hour, -time.Second, -time.Minute, -1000 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var clock atomic.Int64
				w := newWire()
				w.model = newModel(&clock)
				f := w.fleet(t, redis.Config{Bucket: full})
				a, b := budgetOf(t, f), budgetOf(t, w.fleet(t, redis.Config{Bucket: full}))
				total := 0
				for range 20 {
					clock.Add(int64(step))
					total += drain(a, b)
				}
				assert.LessOrEqual(t, total, 20)
				assert.GreaterOrEqual(t, total, 12)
				assert.Equal(t, redis.Shared, f.State())
				for range 5 { // a step may make one report late, not every one
					succeed(a, 40)
					settle(300 * time.Millisecond)
				}
				assert.GreaterOrEqual(t, drain(a, b), 16)
			})
		})
	}
}
