//go:build unix

package redis_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// books makes a ledger of what all processes told.
func books(all []*child) *ledger {
	var events []told
	for _, c := range all {
		c.mu.Lock()
		events = append(events, c.told...)
		c.mu.Unlock()
	}
	slices.SortStableFunc(events, func(a, b told) int { return a.at.Compare(b.at) })
	var l ledger
	for _, e := range events {
		switch e.what {
		case didRetry:
			l.note(e.at, 1, 0)
		case didSucceed:
			l.note(e.at, 0, 1)
		default:
		}
	}
	return &l
}

// pass lets time pass in a test with real processes, where nothing but the end of
// a time tells that something did not happen.
func pass(d time.Duration) { <-time.After(d) }

const (
	fleetSize = 4
	// A Period, two Timeouts, and what a process that waits for a processor is late.
	unreportedThere = 600*time.Millisecond + 700*time.Millisecond
)

// fleetOf starts processes that share the server's bucket, and waits for them.
func fleetOf(t *testing.T, s *server, replicas int) []*child {
	t.Helper()
	var all []*child
	for i := range fleetSize {
		all = append(all, startChild(t, childConfig{s.address, replicas, uint64(i)}))
	}
	for _, c := range all {
		require.Eventually(t, func() bool { return c.last(isUp) == isUp }, time.Minute, 10*time.Millisecond)
	}
	return all
}

// closeBooks ends all processes and checks what they did against a bound.
func closeBooks(t *testing.T, all []*child, bound float64) (excess float64) {
	t.Helper()
	for _, c := range all {
		c.finish()
	}
	l := books(all)
	retries, successes := l.total()
	excess = l.excess(unreportedThere)
	t.Logf("%d processes: %d retries, %d successes; in the worst window %.1f tokens above a tenth of the successes; bound %g", len(all), retries, successes, excess, bound)
	assert.LessOrEqual(t, excess, bound+0.001)
	assert.LessOrEqual(t, float64(retries), 0.1*float64(successes)+0.001)
	return excess
}

func TestProcesses_shareOneBucket(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	all := fleetOf(t, s, 0)
	pass(6 * time.Second)
	require.Eventually(t, func() bool { return !oneSays(all, fellBack) }, 20*time.Second, 10*time.Millisecond)
	assert.Greater(t, closeBooks(t, all, 20), 10.0, "a bound that is never near is not tested")
	for _, c := range all {
		assert.Equal(t, byte(didClose), c.last(didClose), "Close gave everything back")
	}
}

// The control: without a shared bucket, each process has one.
func TestProcesses_withoutRedis(t *testing.T) {
	t.Parallel()
	all := fleetOf(t, &server{address: freeAddress(t)}, 1)
	pass(6 * time.Second)
	assert.Greater(t, closeBooks(t, all, fleetSize*20), 30.0)
}

func TestProcesses_killedWithTokensInHand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	all := fleetOf(t, s, 0)
	for i := range 3 {
		pass(1700 * time.Millisecond)
		all[i].kill()
		all = append(all, startChild(t, childConfig{s.address, 0, uint64(100 + i)}))
	}
	pass(time.Second)
	assert.Greater(t, closeBooks(t, all, 20), 4.0, "a bound that is never near is not tested")
}

func TestProcesses_redisRestartedInAStorm(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]string{"with its data": "SAVE", "without": "NOSAVE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			all := fleetOf(t, s, fleetSize)
			for range 2 {
				pass(time.Second)
				s.client().Do(t.Context(), "SHUTDOWN", how)
				<-s.ended
				require.Eventually(t, func() bool { return allSay(all, fellBack) }, 20*time.Second, 10*time.Millisecond, "all work by themselves")
				pass(500 * time.Millisecond)
				s.restart()
				require.Eventually(t, func() bool { return allSay(all, isShared) }, 20*time.Second, 10*time.Millisecond, "all come back")
			}
			closeBooks(t, all, 20+fleetSize*5)
		})
	}
}

func TestProcesses_redisPaused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	all := fleetOf(t, s, fleetSize)
	for range 2 {
		pass(time.Second)
		require.NoError(t, s.process.Process.Signal(syscall.SIGSTOP))
		require.Eventually(t, func() bool { return allSay(all, fellBack) }, 20*time.Second, 10*time.Millisecond, "all work by themselves")
		pass(500 * time.Millisecond)
		require.NoError(t, s.process.Process.Signal(syscall.SIGCONT))
		require.Eventually(t, func() bool { return allSay(all, isShared) }, 20*time.Second, 10*time.Millisecond, "all come back")
	}
	closeBooks(t, all, 20+fleetSize*5)
}

func says(what byte) func(*child) bool {
	return func(c *child) bool { return c.last(fellBack, isShared) == what }
}

func oneSays(all []*child, what byte) bool { return slices.ContainsFunc(all, says(what)) }

func allSay(all []*child, what byte) bool {
	says := says(what)
	return !slices.ContainsFunc(all, func(c *child) bool { return !says(c) })
}
