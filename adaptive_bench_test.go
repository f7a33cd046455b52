package retrybudget_test

import (
	"testing"
	"time"

	"github.com/retrybudget/retrybudget"
)

// BenchmarkAdaptive shows what the two budgets of Adaptive add to a call. A
// denied retry should take no longer than three readings of the clock, the first
// line.
func BenchmarkAdaptive(b *testing.B) {
	pair := func(b *testing.B) retrybudget.Budget {
		b.Helper()
		budget, err := retrybudget.Adaptive()("target", "/a.Service/Method")
		if err != nil {
			b.Fatal(err)
		}
		return budget
	}
	b.Run("clock", func(b *testing.B) {
		start := time.Now()
		var sum time.Duration
		for b.Loop() {
			sum += time.Since(start)
		}
		_ = sum
	})
	b.Run("success", func(b *testing.B) {
		budget := pair(b)
		b.ReportAllocs()
		for b.Loop() {
			budget.RecordSuccess()
		}
	})
	b.Run("denied", func(b *testing.B) {
		budget := pair(b)
		takeAll(budget, 10)
		b.ReportAllocs()
		for b.Loop() {
			budget.TryTake(plain)
		}
	})
	b.Run("granted and given back", func(b *testing.B) {
		budget := pair(b)
		b.ReportAllocs()
		for b.Loop() {
			budget.TryTake(plain)
			budget.Settle(plain, retrybudget.Succeeded)
		}
	})
	b.Run("success, parallel", func(b *testing.B) {
		budget := pair(b)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				budget.RecordSuccess()
			}
		})
	})
	b.Run("denied, parallel", func(b *testing.B) {
		budget := pair(b)
		takeAll(budget, 10)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				budget.TryTake(plain)
			}
		})
	})
}
