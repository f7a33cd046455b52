package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// tinyConfig is everything at once in two seconds, on a machine of any speed.
func tinyConfig() config {
	c := fullConfig()
	c.Rate, c.Workers = 15, 2
	c.Deadline, c.AttemptTimeout = time.Minute, 2*time.Second
	c.Warmup, c.Fault = time.Second, time.Second
	c.Together = len(scenarios)
	return c
}

// inFault is how many user calls start in the fault.
func inFault(c config) int {
	n := 0
	for _, at := range schedule(c) {
		if at >= c.Warmup {
			n++
		}
	}
	return n
}

func TestPlay_countsEveryCallOnce(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	r, err := play(t.Context(), c, func(context.Context, *live) {})
	require.NoError(t, err)
	assert.False(t, r.Interrupted)
	require.Len(t, r.Rows, len(scenarios)*len(strategies))
	for i, m := range r.Rows {
		name := m.Scenario.Name + ", " + m.Strategy.Name
		assert.Equal(t, scenarios[i/len(strategies)].Name, m.Scenario.Name)
		assert.Equal(t, strategies[i%len(strategies)].Name, m.Strategy.Name)
		assert.Equal(t, inFault(c), m.Calls, name)
		assert.Equal(t, m.Calls, m.OK.Whole, name)
		assert.GreaterOrEqual(t, m.A, m.Calls, name)
		assert.Positive(t, m.C, name)
		assert.Equal(t, m.Strategy.Name == "tokens" || m.Strategy.Name == "adaptive", m.HasFunds, name)
		if m.Scenario.Name == "down" {
			assert.Zero(t, m.OK.Part, name)
		}
	}
	for _, name := range []string{"naive", "middleware"} {
		assert.GreaterOrEqual(t, rowOf(r.Rows, "down", name).C, allAttempts*inFault(c), name)
	}
	for _, name := range []string{"tokens", "adaptive"} {
		assert.Less(t, rowOf(r.Rows, "down", name).C, allAttempts*inFault(c)/2, name)
	}
	assert.Positive(t, r.Machine.CPUs)
}

func TestPlay_onlyOverloadedHasAttemptTimeouts(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	for _, name := range scenarioNames() {
		s, err := newScene(t.Context(), c, name, "naive", 1)
		require.NoError(t, err)
		s.mesh.close()
		if name == "overloaded" {
			assert.Equal(t, c.timeouts(), s.mesh.timeouts)
		} else {
			assert.Equal(t, [edges]time.Duration{}, s.mesh.timeouts, name)
		}
	}
}

func TestPlay_interruptKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	c.Strategies, c.Together = []string{"tokens"}, 1
	c.Fault = time.Minute
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, err := play(ctx, c, func(ctx context.Context, l *live) {
		terminal.Every(ctx, 10*time.Millisecond, func() {
			if l.Now() > c.Warmup && l.scenes[0].mesh.c.Total() >= 30 {
				interrupt()
			}
		})
	})
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	require.Len(t, r.Rows, 1, "the other scenarios were not begun")
	assert.Less(t, r.Rows[0].Calls, inFault(c))
	assert.Positive(t, r.Rows[0].Calls)
}

func TestPlay_interruptedBeforeItBegan(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := play(ctx, tinyConfig(), func(context.Context, *live) {})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestProgress_plainLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	c.Scenarios, c.Strategies = []string{"down"}, []string{"tokens"}
	var out bytes.Buffer
	_, err := play(t.Context(), c, terminal.Progress[*live](&out))
	require.NoError(t, err)
	assert.Regexp(t, `^C down; numbers are attempts at C for each user call
  0\.\d s  health
  \d\.\d s  fault
`, out.String())
}
