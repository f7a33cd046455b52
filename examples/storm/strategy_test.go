package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
)

// testConfig has limits that a busy machine does not reach by itself.
func testConfig() config {
	c := testDefaults("overload", true)
	c.Clients = 1
	c.ServiceTime = time.Millisecond
	c.AttemptTimeout = 500 * time.Millisecond
	c.Deadline = 2500 * time.Millisecond
	return c
}

// call makes one call in a condition of the server and returns what the caller
// and the server saw.
func call(t *testing.T, w *world, c config, number int, condition backend.Condition) (ok bool, attempts int) {
	t.Helper()
	w.service.Enter(condition)
	w.call(t.Context(), c, number, arrival{}, time.Now())
	require.True(t, w.outcomes[number].done)
	return w.outcomes[number].ok, w.service.Attempts(number)
}

var (
	allFails = backend.Condition{Errors: 1} // every attempt gets UNAVAILABLE
	hangs    = backend.Condition{}          // no worker: attempts wait for ever
	healthy  = backend.Condition{Workers: 1}
)

// What a strategy retries is what its row in the table stands for.
func TestStrategy_attempts(t *testing.T) {
	t.Parallel()
	const warmup = 30 // successful calls first: retrybudget starts empty
	for _, test := range []struct {
		name        string
		unavailable int // attempts when each gets UNAVAILABLE
		hanging     int // attempts when each waits for ever
	}{
		{"none", 1, 1},
		{"naive", 3, 3},
		{"middleware", 3, 3},
		{"grpc", 3, 1},
		{"grpc-throttled", 3, 1},
		{"failsafe", 3, 3},
		{"retrybudget", 3, 2},          // 30 successes earn 3 retries: two for the first call, one for the second
		{"retrybudget-throttle", 3, 2}, // 10 tokens, less three failures, then above 5 only after the first
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, ok := strategyNamed(test.name)
			require.True(t, ok)
			c := testConfig()
			w, err := newWorld(t.Context(), c, s, warmup+2)
			require.NoError(t, err)
			defer w.close()
			for i := range warmup {
				ok, attempts := call(t, w, c, i, healthy)
				require.True(t, ok)
				require.Equal(t, 1, attempts)
			}
			ok, attempts := call(t, w, c, warmup, allFails)
			assert.False(t, ok)
			assert.Equal(t, test.unavailable, attempts, "UNAVAILABLE")
			ok, attempts = call(t, w, c, warmup+1, hangs)
			assert.False(t, ok)
			assert.Equal(t, test.hanging, attempts, "no answer")
		})
	}
}

// Without the warm-up, because what it earns leaks as fast as the machine is slow.
func TestStrategy_adaptiveStartsWithItsReserve(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		condition backend.Condition
		attempts  int
	}{
		{allFails, 3}, // the reserve of two, one each
		{hangs, 2},    // 1.5 for the first timeout, and half a token is not enough
	} {
		s, _ := strategyNamed("retrybudget-adaptive")
		c := testConfig()
		w, err := newWorld(t.Context(), c, s, 1)
		require.NoError(t, err)
		_, attempts := call(t, w, c, 0, test.condition)
		assert.Equal(t, test.attempts, attempts)
		w.close()
	}
}

// In a long outage each of the three budgets ends the retries, and the two that
// start with something spend that before.
func TestStrategy_budgetsEndRetries(t *testing.T) {
	t.Parallel()
	const outage = 30
	for name, want := range map[string]int{"retrybudget": 0, "retrybudget-adaptive": 2, "retrybudget-throttle": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ok := strategyNamed(name)
			require.True(t, ok)
			c := testConfig()
			w, err := newWorld(t.Context(), c, s, outage)
			require.NoError(t, err)
			defer w.close()
			retries := 0
			for i := range outage {
				_, attempts := call(t, w, c, i, allFails)
				retries += attempts - 1
			}
			assert.Equal(t, want, retries)
		})
	}
}

// Clients are processes: what one of them spends, another still has.
func TestStrategy_clientsShareNoBudget(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"retrybudget-adaptive", "retrybudget-throttle"} {
		s, _ := strategyNamed(name)
		c := testConfig()
		c.Clients = 2
		const outage = 10
		w, err := newWorld(t.Context(), c, s, outage+1)
		require.NoError(t, err)
		for i := range outage {
			call(t, w, c, i, allFails)
		}
		w.call(t.Context(), c, outage, arrival{Client: 1}, time.Now())
		assert.Equal(t, 1, w.service.Attempts(outage-1), "%s: the first client has spent all", name)
		assert.Greater(t, w.service.Attempts(outage), 1, "%s: the second has not", name)
		w.close()
	}
}

func TestStrategy_retrybudgetStartsEmpty(t *testing.T) {
	t.Parallel()
	s, _ := strategyNamed("retrybudget")
	c := testConfig()
	w, err := newWorld(t.Context(), c, s, 1)
	require.NoError(t, err)
	defer w.close()
	_, attempts := call(t, w, c, 0, allFails)
	assert.Equal(t, 1, attempts)
}

func TestStrategies_areDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range strategies {
		assert.NotEmpty(t, s.Title)
		assert.NotEmpty(t, s.About)
		assert.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
	}
	_, ok := strategyNamed("hope")
	assert.False(t, ok)
}
