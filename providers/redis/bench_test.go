package redis_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// contestants are the local bucket, and the shared one with a real Redis behind.
func contestants(b *testing.B, run func(*testing.B, retrybudget.Budget)) {
	b.Run("TokenBucket", func(b *testing.B) {
		local, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{})
		require.NoError(b, err)
		b.ReportAllocs()
		run(b, local)
	})
	b.Run("redis", func(b *testing.B) {
		f, err := redis.New(startServer(b).client(), redis.Config{})
		require.NoError(b, err)
		shared, err := f.Budget("target", "/service/method")
		require.NoError(b, err)
		b.ReportAllocs()
		run(b, shared)
		b.StopTimer()
		stats := f.Stats()
		b.ReportMetric(float64(stats.RoundTrips)/b.Elapsed().Seconds(), "roundtrips/s")
		f.Close(background(b))
	})
}

func BenchmarkRecordSuccess(b *testing.B) {
	contestants(b, func(b *testing.B, budget retrybudget.Budget) {
		for b.Loop() {
			budget.RecordSuccess()
		}
	})
}

func BenchmarkRecordSuccess_parallel(b *testing.B) {
	contestants(b, func(b *testing.B, budget retrybudget.Budget) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				budget.RecordSuccess()
			}
		})
	})
}

// A storm: what is there goes, and most of the rest is refused.
func BenchmarkTryTake(b *testing.B) {
	contestants(b, func(b *testing.B, budget retrybudget.Budget) {
		for b.Loop() {
			budget.TryTake(retrybudget.Cause{})
		}
	})
}

// One success and one retry asked for.
func BenchmarkMixed_parallel(b *testing.B) {
	contestants(b, func(b *testing.B, budget retrybudget.Budget) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				budget.RecordSuccess()
				budget.TryTake(retrybudget.Cause{})
			}
		})
	})
}

// What one exchange costs Redis, with so many processes holding tokens.
func BenchmarkScript(b *testing.B) {
	for _, processes := range []int{10, 1000} {
		b.Run(fmt.Sprintf("holders=%d", processes), func(b *testing.B) {
			client := startServer(b).client()
			hash := client.ScriptLoad(b.Context(), redis.Script).Val()
			for i := 0; i < b.N; i += 100 {
				pipe := client.Pipeline()
				for j := range 100 {
					pipe.EvalSha(b.Context(), hash, []string{"k"}, args(call{
						id: fmt.Sprint((i + j) % processes), epoch: "?", fresh: "f", capacity: 1_000_000_000, ttl: 60_000, hold: 5000, credit: 100, held: 1000,
					})...)
				}
				_, err := pipe.Exec(b.Context())
				require.NoError(b, err)
			}
		})
	}
}

func TestBudget_allocatesNothing(t *testing.T) {
	f := newFleet(t, newWire().client(t), redis.Config{Bucket: full})
	b := budgetOf(t, f)
	b.RecordSuccess()
	// The goroutine of the Fleet allocates for its exchanges, now and then.
	allocations := testing.AllocsPerRun(100_000, func() {
		b.RecordSuccess()
		if b.TryTake(retrybudget.Cause{}) {
			b.Settle(retrybudget.Cause{}, retrybudget.Refused)
		}
	})
	require.Less(t, allocations, 0.5)
}
