package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testConfig has limits that a busy machine does not reach by itself.
func testConfig() config {
	c := quickConfig()
	c.Clients = 1
	c.ServiceTime = time.Millisecond
	c.AttemptTimeout = 500 * time.Millisecond
	c.Deadline = 2500 * time.Millisecond
	return c
}

// call makes one call in a condition of the server and returns what the caller
// and the server saw.
func call(t *testing.T, w *world, c config, number int, condition phase) (ok bool, attempts int) {
	t.Helper()
	w.service.enter(condition, c.Workers)
	w.call(t.Context(), c, number, arrival{}, time.Now())
	require.True(t, w.outcomes[number].done)
	w.service.mu.Lock()
	defer w.service.mu.Unlock()
	return w.outcomes[number].ok, int(w.service.attempts[number])
}

var (
	allFails = phase{Errors: 1} // every attempt gets UNAVAILABLE
	hangs    = phase{}          // no worker: attempts wait for ever
	healthy  = phase{Capacity: 1}
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
		{"retrybudget", 3, 2}, // 30 successes earn 3 retries: two for the first call, one for the second
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
