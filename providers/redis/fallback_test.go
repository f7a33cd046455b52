package redis_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

var faults = map[string]fault{"refused": refused, "cut": cut, "hangs": hangs, "stalls": stalls, "nonsense": nonsense}

// Every way in which Redis may be away: the budget falls back within a Period and
// a Timeout, works with its share, and is shared again by itself.
func TestFallback_localShare(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				fleet := w.fleet(t, redis.Config{Replicas: 10})
				b := budgetOf(t, fleet)
				succeed(b, 1)
				settle(50 * time.Millisecond)
				assert.Equal(t, redis.Shared, fleet.State())

				w.set(f)
				succeed(b, 1)
				settle(200 * time.Millisecond)
				assert.Equal(t, redis.Fallback, fleet.State())
				tokens, capacity := b.(retrybudget.LevelReporter).Level() //nolint:errcheck // a panic fails the test
				assert.InDelta(t, 4, capacity, 0, "the lease, which is more than its share")
				assert.Zero(t, tokens)
				succeed(b, 1000)
				settle(200 * time.Millisecond)
				assert.Equal(t, 2, take(b, 100), "a tenth of 20 tokens, however many successes")
				succeed(b, 15)
				settle(200 * time.Millisecond)
				assert.Equal(t, 1, take(b, 100), "0.1 for each success")

				w.set(none)
				settle(3 * time.Second)
				assert.Equal(t, redis.Shared, fleet.State())
				succeed(b, 1000)
				settle(200 * time.Millisecond)
				total := 0
				for range 20 {
					total += take(b, 100)
					settle(10 * time.Millisecond)
				}
				assert.Equal(t, 20, total)
			})
		})
	}
}

func TestFallback_deny(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				fleet := w.fleet(t, redis.Config{Bucket: full})
				b := budgetOf(t, fleet)
				take(b, 1)
				settle(time.Second)
				w.set(f)
				settle(1200 * time.Millisecond) // until after the next sign of life
				assert.Equal(t, redis.Fallback, fleet.State())
				assert.Equal(t, 2, take(b, 2), "what is in hand")
				succeed(b, 1000)
				settle(5 * time.Second)
				assert.Zero(t, take(b, 10), "not for long, because others get its place, and successes earn nothing")

				w.set(none)
				settle(3 * time.Second)
				assert.Equal(t, redis.Shared, fleet.State())
				assert.LessOrEqual(t, w.model.tokens(), int64(16_000), "nor is anything made of them later")
			})
		})
	}
}

// What was earned while Redis was away is not lost, nor counted twice.
func TestFallback_localTokensGoToThePoolAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.set(refused)
		f := w.fleet(t, redis.Config{Replicas: 2})
		b := budgetOf(t, f)
		succeed(b, 1)
		settle(500 * time.Millisecond)
		succeed(b, 79)
		settle(500 * time.Millisecond)
		w.set(none)
		settle(5 * time.Second)
		assert.Equal(t, redis.Shared, f.State())
		tokens, _ := b.(retrybudget.LevelReporter).Level() //nolint:errcheck // a panic fails the test
		assert.InDelta(t, 8, tokens, 0)
		assert.Equal(t, int64(4000), w.model.tokens(), "beside the four in hand")
	})
}

func TestFallback_triesLessAndLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.set(refused)
		b := budgetOf(t, w.fleet(t, redis.Config{Idle: time.Hour}))
		take(b, 1)
		settle(2 * time.Second)
		assert.Less(t, w.roundTrips.Load(), int64(12))
		before := w.roundTrips.Load()
		for range 1000 {
			succeed(b, 10)
			take(b, 10)
			settle(100 * time.Millisecond)
		}
		tries := w.roundTrips.Load() - before
		assert.LessOrEqual(t, tries, int64(100), "at least a second between two")
		assert.GreaterOrEqual(t, tries, int64(50), "at most two")
	})
}

// No request is sent a second time after an error: the server may have done it.
func TestFallback_nothingIsReportedTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Replicas: 20, Lease: 4})
		b := budgetOf(t, f)
		succeed(b, 1)
		settle(50 * time.Millisecond)
		w.set(cut)
		succeed(b, 100) // ten tokens, in a report that arrives without an answer
		settle(200 * time.Millisecond)
		w.set(none)
		settle(10 * time.Second)
		total := 0
		for range 30 {
			total += take(b, 100)
			settle(10 * time.Millisecond)
		}
		assert.Equal(t, redis.Shared, f.State())
		assert.Equal(t, 6, total, "the ten of the report, without the lease of the answer that was lost")
	})
}

// A node of a cluster that is away does not keep the budgets of others waiting.
func TestFallback_othersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full})
		sick, err := f.Budget("sick", "/s/m")
		assert.NoError(t, err)
		well, err := f.Budget("well", "/s/m")
		assert.NoError(t, err)
		take(sick, 1)
		take(well, 1)
		settle(50 * time.Millisecond)
		w.change(func() { w.fault, w.only = hangs, "retrybudget:{sick|/s/m}" })
		succeed(sick, 1)
		settle(500 * time.Millisecond)
		assert.Equal(t, 1, f.Stats().Away)
		total := 0
		for range 30 {
			total += take(well, 10)
			settle(10 * time.Millisecond)
		}
		assert.Equal(t, 20, total)
		assert.Equal(t, 1, f.Stats().Away)
	})
}

func TestFallback_isReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		var heard []string
		f := w.fleet(t, redis.Config{OnState: func(s redis.State, cause error) { heard = append(heard, fmt.Sprint(s, ": ", cause)) }})
		b := budgetOf(t, f)
		succeed(b, 1)
		settle(time.Second)
		assert.Empty(t, heard, "all is well from the beginning")
		w.set(refused)
		succeed(b, 1)
		settle(time.Second)
		w.set(hangs)
		settle(5 * time.Second)
		w.set(none)
		settle(5 * time.Second)
		w.set(hangs)
		succeed(b, 1)
		settle(time.Second)
		w.set(none)
		settle(5 * time.Second)
		assert.Equal(t, []string{
			"fallback: the wire is broken", "shared: <nil>",
			"fallback: retrybudget: redis: no answer within the timeout", "shared: <nil>",
		}, heard)
		s := f.Stats()
		assert.Positive(t, s.Failures)
		assert.Positive(t, s.Exchanges)
		assert.Equal(t, 1, s.Budgets)
		assert.Zero(t, s.Away)
	})
}

// Names that others choose, while Redis is away: those no longer used are not
// kept.
func TestFallback_unusedBudgetsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.set(hangs)
		f := w.fleet(t, redis.Config{Replicas: 1, Idle: time.Second})
		for i := range 10 {
			b, err := f.Budget("target", fmt.Sprint(i))
			assert.NoError(t, err)
			succeed(b, 100)
		}
		settle(500 * time.Millisecond)
		assert.Equal(t, 10, f.Stats().Budgets)
		settle(5 * time.Second)
		assert.Zero(t, f.Stats().Budgets)
		trips := w.roundTrips.Load()
		settle(time.Minute)
		assert.Equal(t, trips, w.roundTrips.Load())
	})
}
