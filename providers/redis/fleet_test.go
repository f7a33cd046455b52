package redis_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

func TestNew_refusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	client := newWire().client(t)
	for want, cfg := range map[string]redis.Config{
		"retrybudget: TokenBucketConfig.Capacity -1 is not in 1..1000000000": {Bucket: retrybudget.TokenBucketConfig{Capacity: -1}},
		"retrybudget: TokenBucketConfig.Ratio 2 is not in 0.001..1":          {Bucket: retrybudget.TokenBucketConfig{Ratio: 2}},
		"retrybudget: TokenBucketConfig.Initial 21 is not in 0..Capacity (20)": {
			Bucket: retrybudget.TokenBucketConfig{Initial: 21},
		},
		"retrybudget: redis.Config.Lease -1 is not in 4..Capacity (20)":        {Lease: -1},
		"retrybudget: redis.Config.Lease 3 is not in 4..Capacity (20)":         {Lease: 3},
		"retrybudget: redis.Config.Lease 21 is not in 4..Capacity (20)":        {Lease: 21},
		"retrybudget: redis.Config.Lease 3 is not in 2..Capacity (2)":          {Lease: 3, Bucket: retrybudget.TokenBucketConfig{Capacity: 2}},
		"retrybudget: redis.Config.Replicas -1 is below 0":                     {Replicas: -1},
		"retrybudget: redis.Config.Period -1s is not in 1ms..10s":              {Period: -time.Second},
		"retrybudget: redis.Config.Period 11s is not in 1ms..10s":              {Period: 11 * time.Second},
		"retrybudget: redis.Config.Timeout 1µs is not in 1ms..10s":             {Timeout: time.Microsecond},
		"retrybudget: redis.Config.MaxBackoff 10ms is not in 100ms..8760h0m0s": {MaxBackoff: 10 * time.Millisecond},
		"retrybudget: redis.Config.Idle 10ms is not in 100ms..8760h0m0s":       {Idle: 10 * time.Millisecond},
		"retrybudget: redis.Config.TTL 1m0s is not in 2m0s..17520h0m0s":        {TTL: time.Minute},
	} {
		f, err := redis.New(client, cfg)
		assert.EqualError(t, err, want)
		assert.Nil(t, f)
	}
	_, err := redis.New(nil, redis.Config{})
	assert.EqualError(t, err, "retrybudget: redis.New: the client is nil")
}

func TestNew_acceptsTheLimits(t *testing.T) {
	t.Parallel()
	for _, cfg := range []redis.Config{
		{},
		{Period: 10 * time.Second},
		{Period: time.Millisecond, Timeout: time.Millisecond, MaxBackoff: time.Millisecond, Idle: time.Millisecond, TTL: 2 * time.Millisecond},
		{Idle: 24 * time.Hour},
		{Lease: 20, Replicas: 1_000_000},
		{Bucket: retrybudget.TokenBucketConfig{Capacity: 1_000_000_000, Initial: 1_000_000_000, Ratio: 1}, Lease: 1_000_000_000},
	} {
		newWire().fleet(t, cfg)
	}
}

func TestFleet_oneBudgetForEachPair(t *testing.T) {
	t.Parallel()
	f := newWire().fleet(t, redis.Config{})
	a := budgetOf(t, f)
	assert.Same(t, a, budgetOf(t, f))
	for _, n := range [][2]string{{"target", ""}, {"", "/service/method"}, {"target2", "/service/method"}, {"target/service", "/method"}} {
		b, err := f.Budget(n[0], n[1])
		require.NoError(t, err)
		assert.NotSame(t, a, b)
	}
	runtime.KeepAlive(a)
}

// The names are those of somebody else's requests: what there is no room for
// shares one budget, and what nobody uses any more makes room.
func TestFleet_namesAreBounded(t *testing.T) {
	t.Parallel()
	f := newWire().fleet(t, redis.Config{})
	common, err := f.Budget("", "")
	require.NoError(t, err)
	var kept []retrybudget.Budget
	for i := range 1024 {
		b, err := f.Budget("target", fmt.Sprint(i))
		require.NoError(t, err)
		assert.NotSame(t, common, b)
		kept = append(kept, b)
	}
	b, err := f.Budget("target", "one more")
	require.NoError(t, err)
	assert.Same(t, common, b)
	runtime.KeepAlive(kept)
	kept = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		b, err := f.Budget("target", "one more")
		return assert.NoError(t, err) && b != common
	}, 20*time.Second, time.Millisecond)
	assert.Nil(t, kept)
}

func TestFleet_concurrentUse(t *testing.T) {
	t.Parallel()
	w := newWire()
	f := w.fleet(t, redis.Config{Bucket: full, Period: time.Millisecond, Idle: time.Millisecond, Timeout: time.Second})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 2000 {
				b, err := f.Budget("target", fmt.Sprint(i/100%3))
				if !assert.NoError(t, err) {
					return
				}
				b.RecordSuccess()
				if b.TryTake(retrybudget.Cause{Exhausted: i%7 == 0}) {
					b.Settle(retrybudget.Cause{Exhausted: i%7 == 0}, retrybudget.Outcome(1+i%5)) //nolint:gosec // five outcomes
				}
				f.Stats()
				f.State()
				b.(retrybudget.LevelReporter).Level() //nolint:errcheck // a panic fails the test
			}
		})
	}
	all.Wait()
	require.NoError(t, f.Close(background(t)))
	assert.Equal(t, redis.Shared, f.State())
}
