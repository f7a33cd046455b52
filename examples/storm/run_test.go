package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tinyConfig is the whole story in 3 s on a machine of any speed.
func tinyConfig() config {
	c := fullConfig()
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

func TestPlay_interruptKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	c := tinyConfig()
	c.Tail = time.Minute
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, err := play(ctx, c, func(ctx context.Context, l *live) {
		every(ctx, 10*time.Millisecond, func() {
			if l.worlds[0].service.total() >= 10 {
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
