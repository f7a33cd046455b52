package redis_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

func TestClose_givesBackAndReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: retrybudget.TokenBucketConfig{Initial: 10}})
		b := budgetOf(t, f)
		take(b, 1)
		settle(time.Second)
		assert.Equal(t, int64(6000), w.model.tokens())
		succeed(b, 30)
		assert.NoError(t, f.Close(t.Context()))
		assert.Equal(t, int64(13_000), w.model.tokens())

		assert.Zero(t, take(b, 1), "nothing is granted any more")
		succeed(b, 1000)
		settle(time.Hour)
		assert.Equal(t, int64(13_000), w.model.tokens())
		_, err := f.Budget("target", "/another/method")
		assert.EqualError(t, err, "retrybudget: redis.Fleet.Budget: the Fleet is closed")
		assert.NoError(t, f.Close(t.Context()), "twice is once")
	})
}

func TestClose_ofABudgetThatSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{})
		b := budgetOf(t, f)
		assert.NoError(t, f.Close(t.Context()))
		succeed(b, 1000)
		assert.Zero(t, take(b, 1))
		settle(time.Hour)
		assert.Zero(t, w.roundTrips.Load())
	})
}

// A process that ends right after its calls reports them, too.
func TestClose_beforeTheFirstExchange(t *testing.T) {
	t.Parallel()
	for range 20 { // chance decides whether the calls or the end are noticed first
		synctest.Test(t, func(t *testing.T) {
			w := newWire()
			f := w.fleet(t, redis.Config{})
			succeed(budgetOf(t, f), 100)
			assert.NoError(t, f.Close(t.Context()))
			assert.Equal(t, int64(10_000), w.model.tokens())
		})
		synctest.Test(t, func(t *testing.T) {
			w := newWire()
			w.set(refused)
			f := w.fleet(t, redis.Config{})
			succeed(budgetOf(t, f), 100)
			assert.ErrorIs(t, f.Close(t.Context()), errWire)
		})
	}
}

// Redis does nothing of what seems to come too late, so Close must not say that it
// did.
func TestClose_afterAStepOfTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Int64
		w := newWire()
		w.model = newModel(&clock)
		f := w.fleet(t, redis.Config{})
		b := budgetOf(t, f)
		succeed(b, 1)
		settle(time.Second)
		succeed(b, 100)
		clock.Add(int64(time.Minute))
		assert.EqualError(t, f.Close(t.Context()), "retrybudget: redis.Fleet.Close: what 1 budgets held was not given back: "+
			"retrybudget: redis: an exchange came to Redis after its time")
	})
}

func TestClose_whileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				fleet := w.fleet(t, redis.Config{Bucket: full, Replicas: 2})
				b := budgetOf(t, fleet)
				take(b, 1)
				settle(time.Second)
				w.set(f)
				err := fleet.Close(t.Context())
				assert.ErrorContains(t, err, "retrybudget: redis.Fleet.Close: what 1 budgets held was not given back: ")
				assert.Zero(t, take(b, 1))
			})
		})
	}
}

func TestClose_afterTheFallBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.set(refused)
		f := w.fleet(t, redis.Config{Replicas: 2})
		b := budgetOf(t, f)
		succeed(b, 100)
		settle(time.Second)
		assert.ErrorIs(t, f.Close(t.Context()), errWire)
		assert.Zero(t, take(b, 1))
	})
}

// The client ignores the context, as go-redis does unless it is told otherwise.
func TestClose_endsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f := w.fleet(t, redis.Config{Bucket: full})
		b := budgetOf(t, f)
		take(b, 1)
		settle(time.Second)
		w.change(func() { w.deaf, w.delay = true, time.Hour })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := f.Close(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "retrybudget: redis.Fleet.Close: ")
		assert.Equal(t, time.Second, time.Since(start))
		assert.Zero(t, take(b, 1))
		settle(3 * time.Hour) // what is under way ends with the client
	})
}
