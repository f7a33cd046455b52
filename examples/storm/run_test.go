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

// tinyConfig is the whole story in 3 s on a machine of any speed.
func tinyConfig() config {
	c := testDefaults("overload", false)
	c.Clients, c.Rate, c.Workers = 2, 40, 3
	c.Health, c.Fault, c.Tail, c.Windows = time.Second, time.Second, time.Second, 1
	return c
}

func TestPlay_countsEveryCallOnce(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	r, err := play(t.Context(), c, func(context.Context, *live) {})
	require.NoError(t, err)
	assert.False(t, r.Interrupted)
	assert.Equal(t, c.length(), r.Until)
	require.Len(t, r.Rows, len(strategies))
	for i, m := range r.Rows {
		assert.Equal(t, strategies[i].Name, m.Strategy.Name)
		assert.Equal(t, len(schedule(c)), m.Calls, m.Strategy.Name)
		assert.Positive(t, m.InFault.Whole, m.Strategy.Name)
		assert.NotEqual(t, unmeasured, m.Recovery.State, m.Strategy.Name)
		assert.Positive(t, m.Attempts, m.Strategy.Name)
		assert.LessOrEqual(t, m.Attempts, 3*m.Calls, m.Strategy.Name)
	}
	assert.LessOrEqual(t, r.Rows[0].Attempts, r.Rows[0].Calls, "no retries")
	assert.Positive(t, r.Machine.CPUs)
}

// What a scenario is for shows in the smallest real run of it. Only that is
// asserted which a busy machine cannot change.
func TestPlay_everyScenario(t *testing.T) {
	t.Parallel()
	for _, name := range scenarioNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tinyConfig()
			c.Scenario, c.Errors = name, 0
			c.Workers, c.ServiceTime, c.AttemptTimeout, c.Deadline = 20, time.Millisecond, 10*time.Second, 30*time.Second
			c.Strategies = []string{"none", "naive", "retrybudget-adaptive"}
			c.FaultCapacity, c.Down = 10, 5
			var out bytes.Buffer
			r, err := play(t.Context(), c, terminal.Progress[*live](&out))
			require.NoError(t, err)
			assert.Contains(t, out.String(), "fault: "+c.scenario().label(c))
			none, naive, adaptive := r.Rows[0], r.Rows[1], r.Rows[2]
			for _, m := range r.Rows {
				require.Equal(t, len(schedule(c)), m.Calls)
				require.Positive(t, m.InFault.Whole)
			}
			assert.Equal(t, none.Calls, none.Attempts)
			switch name {
			case "outage":
				assert.Less(t, none.InFault.Part, none.InFault.Whole)
				assert.Greater(t, naive.Attempts, naive.Calls)
				assert.Less(t, adaptive.Attempts, naive.Attempts)
			case "partial":
				assert.Less(t, none.InFault.Part, none.InFault.Whole)
				assert.Greater(t, naive.InFault.Part, none.InFault.Part)
				assert.Positive(t, adaptive.Masked.Part)
			default: // slower, but nothing takes as long as the timeout
				for _, m := range r.Rows {
					assert.Equal(t, m.InFault.Whole, m.InFault.Part)
					assert.Equal(t, m.Calls, m.Attempts)
				}
			}
		})
	}
}

func TestPlay_interruptKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	c.Tail = time.Minute
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, err := play(ctx, c, func(ctx context.Context, l *live) {
		terminal.Every(ctx, 10*time.Millisecond, func() {
			if l.worlds[0].arrivals.Total() >= 10 {
				interrupt()
			}
		})
	})
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.Less(t, r.Until, c.length())
	for _, m := range r.Rows {
		assert.Less(t, m.Calls, len(schedule(c)), m.Strategy.Name)
		assert.Equal(t, unmeasured, m.Recovery.State, m.Strategy.Name)
	}
	assert.Positive(t, r.Rows[0].Calls)
}

func TestPlay_interruptedBeforeItBegan(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := play(ctx, tinyConfig(), func(context.Context, *live) {})
	assert.ErrorIs(t, err, context.Canceled)
}
