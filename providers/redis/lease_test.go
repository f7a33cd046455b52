package redis_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

var full = retrybudget.TokenBucketConfig{Initial: 20}

// settle lets what is under way end, and what is due happen.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestLease_takesFromTheHandAndFillsItInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full})
		b := budgetOf(t, f)
		settle(time.Second)
		assert.Zero(t, w.roundTrips.Load(), "a budget that is not used costs nothing")

		start := time.Now()
		assert.Zero(t, take(b, 1), "the first call fails: nothing in hand yet, and nobody waits")
		assert.Equal(t, start, time.Now())
		settle(3 * time.Millisecond)
		assert.Equal(t, 4, take(b, 100), "a lease")
		settle(3 * time.Millisecond)
		total := 4 + take(b, 100)
		assert.GreaterOrEqual(t, total, 7, "what was missing when it asked, without waiting for the Period, while the pool has tokens")
		for range 10 {
			settle(3 * time.Millisecond)
			total += take(b, 100)
		}
		assert.Equal(t, 20, total)
		trips := w.roundTrips.Load()
		assert.LessOrEqual(t, trips, int64(10))
		for range 20 {
			settle(5 * time.Millisecond)
			assert.Zero(t, take(b, 1))
		}
		assert.LessOrEqual(t, w.roundTrips.Load(), trips+2, "an empty pool is asked once a Period")
	})
}

func TestLease_successesFundTheWholeFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		healthy, failing := budgetOf(t, w.fleet(t, redis.Config{})), budgetOf(t, w.fleet(t, redis.Config{}))
		succeed(healthy, 1)
		settle(time.Second)
		trips := w.requests.Load()
		succeed(healthy, 99)
		settle(150 * time.Millisecond)
		assert.LessOrEqual(t, w.requests.Load(), trips+2, "99 successes are one report")
		total := 0
		for range 20 {
			total += take(failing, 10)
			settle(100 * time.Millisecond)
		}
		total += take(healthy, 10)
		assert.Equal(t, 10, total, "a tenth of the successes, whoever had them")
	})
}

func TestLease_capacityIsThatOfAllTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		var all []retrybudget.Budget
		for range 4 {
			all = append(all, budgetOf(t, w.fleet(t, redis.Config{})))
		}
		for range 100 {
			for _, b := range all {
				succeed(b, 50)
			}
			settle(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, w.model.tokens(), int64(4000), "what is in hands is not in the pool")
		total := 0
		for range 50 {
			for _, b := range all {
				total += take(b, 10)
			}
			settle(5 * time.Millisecond)
		}
		assert.Equal(t, 20, total)
	})
}

func TestLease_hintedRetryCostsFour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		b := budgetOf(t, w.fleet(t, redis.Config{Bucket: retrybudget.TokenBucketConfig{Initial: 9}}))
		hinted := retrybudget.Cause{Code: codes.Unavailable, Attempt: 1, Exhausted: true}
		taken := 0
		for range 30 {
			if b.TryTake(hinted) {
				taken++
			}
			settle(100 * time.Millisecond)
		}
		assert.Equal(t, 2, taken)
		assert.Equal(t, 1, take(b, 10), "what is left of nine")
	})
}

func TestLease_smallCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		b := budgetOf(t, w.fleet(t, redis.Config{Bucket: retrybudget.TokenBucketConfig{Capacity: 1, Initial: 1}}))
		hinted := retrybudget.Cause{Exhausted: true}
		assert.False(t, b.TryTake(hinted))
		settle(10 * time.Millisecond)
		assert.True(t, b.TryTake(hinted), "the whole capacity is enough")
		succeed(b, 1000)
		settle(300 * time.Millisecond)
		assert.Equal(t, 1, take(b, 10), "and no more fits")
	})
}

func TestLease_refusedElsewhereComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: retrybudget.TokenBucketConfig{Initial: 4}})
		b := budgetOf(t, f)
		take(b, 1)
		settle(time.Second)
		for _, o := range []retrybudget.Outcome{retrybudget.Succeeded, retrybudget.Answered, retrybudget.Failed, retrybudget.Abandoned} {
			if assert.True(t, b.TryTake(retrybudget.Cause{})) {
				b.Settle(retrybudget.Cause{}, o)
			}
			settle(time.Second)
		}
		assert.Zero(t, take(b, 1), "none of them gave a token back")

		succeed(b, 40)
		settle(time.Second)
		hinted := retrybudget.Cause{Exhausted: true}
		for range 10 { // the last tokens come one by one
			if b.TryTake(hinted) {
				b.Settle(hinted, retrybudget.Refused)
			}
			settle(10 * time.Millisecond)
		}
		for range 100 {
			assert.True(t, b.TryTake(hinted))
			b.Settle(hinted, retrybudget.Refused)
		}
		settle(time.Second)
		assert.Equal(t, 4, take(b, 10), "exactly what was taken came back")
	})
}

func TestLease_idleGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full, Idle: 10 * time.Second})
		b := budgetOf(t, f)
		take(b, 1)
		settle(time.Second)
		assert.Equal(t, int64(16_000), w.model.tokens())
		settle(8 * time.Second)
		assert.Equal(t, int64(16_000), w.model.tokens(), "not idle yet")
		assert.LessOrEqual(t, w.roundTrips.Load(), int64(11), "one sign of life in ten Periods")
		settle(2 * time.Second)
		assert.Equal(t, int64(20_000), w.model.tokens())
		assert.Zero(t, f.Stats().Budgets)
		assert.InDelta(t, 4, f.Stats().Returned, 0)
		trips := w.roundTrips.Load()
		settle(time.Hour)
		assert.Equal(t, trips, w.roundTrips.Load(), "who holds nothing is silent")

		assert.Zero(t, take(b, 1), "the price of that: the first failure finds nothing")
		settle(10 * time.Millisecond)
		assert.Equal(t, 4, take(b, 10))
	})
}

func TestLease_killedProcessTakesItsTokensAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		killed := newWire()
		victim := budgetOf(t, killed.fleet(t, redis.Config{Bucket: full}))
		take(victim, 1)
		settle(time.Second)
		killed.set(hangs)

		w := newWire()
		w.model = killed.model
		b := budgetOf(t, w.fleet(t, redis.Config{Bucket: full}))
		total := 0
		for range 30 {
			total += take(b, 10)
			settle(10 * time.Millisecond)
		}
		assert.Equal(t, 16, total, "its tokens do not come back")
		for range 20 {
			succeed(b, 1000)
			settle(100 * time.Millisecond)
		}
		tokens, capacity := b.(retrybudget.LevelReporter).Level() //nolint:errcheck // a panic fails the test
		assert.InDelta(t, 16, tokens, 0, "its place is kept")
		assert.InDelta(t, 20, capacity, 0)
		settle(5 * time.Second)
		succeed(b, 1000)
		settle(time.Second)
		tokens, _ = b.(retrybudget.LevelReporter).Level() //nolint:errcheck // a panic fails the test
		assert.InDelta(t, 20, tokens, 0, "until it was not heard of for so long")
	})
}

// Who was cut off may still spend what is in hand. That nobody counts it any more
// makes room for credit, but no token.
func TestLease_placeOfAHolderMakesNoToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		cutOff := newWire()
		cutOff.model = w.model
		holder := budgetOf(t, cutOff.fleet(t, redis.Config{Bucket: full, Replicas: 1}))
		b := budgetOf(t, w.fleet(t, redis.Config{Bucket: full, Replicas: 1}))
		take(holder, 1)
		settle(50 * time.Millisecond)
		cutOff.set(hangs)
		settle(20 * time.Second)
		assert.Equal(t, 16, drain(b))
		assert.Equal(t, 4, take(holder, 10))
	})
}

func TestLease_manyBudgetsGoInOneRoundTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{})
		var all []retrybudget.Budget
		for i := range 50 {
			b, err := f.Budget("target", string(rune('a'+i)))
			require.NoError(t, err)
			succeed(b, 1)
			all = append(all, b)
		}
		settle(time.Second)
		assert.Equal(t, len(all), f.Stats().Budgets)
		roundTrips, requests := w.roundTrips.Load(), w.requests.Load() // the first of each are as they come
		for _, b := range all {
			succeed(b, 1)
		}
		settle(time.Second)
		assert.EqualValues(t, 1, w.roundTrips.Load()-roundTrips)
		assert.EqualValues(t, len(all), w.requests.Load()-requests)
	})
}

func TestLease_serverWithoutTheScriptIsGivenIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full})
		b := budgetOf(t, f)
		w.forgets.Store(true)
		take(b, 1)
		settle(10 * time.Millisecond)
		assert.Equal(t, 4, take(b, 10))
		assert.Zero(t, f.Stats().Failures)
	})
}
