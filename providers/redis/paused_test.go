//go:build unix

package redis_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// Redis stands still: what calls do with the budget takes as long as before. A
// single one may meet a busy machine; one that waited for Redis would take as
// long as the pause.
func TestRedis_pausedDelaysNoCall(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	fell := make(chan time.Time, 100)
	f := newFleet(t, s.client(), redis.Config{Replicas: 4, Timeout: 100 * time.Millisecond, OnState: func(s redis.State, _ error) {
		if s == redis.Fallback {
			fell <- time.Now()
		}
	}})
	b := budgetOf(t, f)
	require.Eventually(t, func() bool {
		succeed(b, 10) // again, because a busy machine may make a report late
		return b.TryTake(retrybudget.Cause{})
	}, 20*time.Second, time.Millisecond)
	before := slowest(b)

	require.NoError(t, s.process.Process.Signal(syscall.SIGSTOP))
	paused := time.Now()
	during := slowest(b)
	require.Eventually(t, isIn(f, redis.Fallback), 20*time.Second, time.Millisecond)
	after := (<-fell).Sub(paused)
	during = append(during, slowest(b)...)
	slices.Sort(during)
	require.NoError(t, s.process.Process.Signal(syscall.SIGCONT))
	require.Eventually(t, isIn(f, redis.Shared), 20*time.Second, time.Millisecond)

	p99 := func(d []time.Duration) time.Duration { return d[len(d)*99/100] }
	t.Logf("a success, a retry asked for, and its settlement, 99th percentile: %v before, %v while Redis stood still; it fell back after %v", p99(before), p99(during), after.Round(time.Millisecond))
	assert.Less(t, p99(during), 5*time.Millisecond)
}

// slowest measures what calls do, for a quarter of a second.
func slowest(b retrybudget.Budget) (took []time.Duration) {
	for end := time.Now().Add(250 * time.Millisecond); time.Now().Before(end); {
		start := time.Now()
		b.RecordSuccess()
		b.RecordFailure(retrybudget.Cause{})
		if b.TryTake(retrybudget.Cause{}) {
			b.Settle(retrybudget.Cause{}, retrybudget.Succeeded)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took
}
