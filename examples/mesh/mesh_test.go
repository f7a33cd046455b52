package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

var (
	down = phase{Errors: 1, Capacity: 1}
	sick = phase{Capacity: 1, Sick: true}
)

// newTestMesh starts a mesh without limits that a busy machine could reach.
func newTestMesh(t *testing.T, strategyName string) *mesh {
	t.Helper()
	c := quickConfig()
	c.ServiceTime = time.Millisecond
	s, ok := strategyNamed(strategyName)
	require.True(t, ok)
	m, err := newMesh(t.Context(), c, s, [edges]time.Duration{}, 1)
	require.NoError(t, err)
	t.Cleanup(m.close)
	return m
}

func ask(ctx context.Context, m *mesh, opts ...grpc.CallOption) error {
	_, err := m.driver.GetStock(ctx, &quickstartv1.GetStockRequest{Sku: "0"}, opts...)
	return err
}

func (m *mesh) totalB() int {
	total := 0
	for i := range m.b {
		total += m.b[i].Total()
	}
	return total
}

// What a strategy makes of one call when C is down is what its row in the table
// stands for. Nothing has funded the budgets here.
func TestMesh_attemptsOfOneCall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		a, b, c int
	}{
		{"naive", 3, 9, 27},
		{"middleware", 3, 9, 27},
		{"tokens", 1, 1, 1}, // the buckets start empty
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newTestMesh(t, test.name)
			m.enter(down)
			assert.Equal(t, codes.Unavailable, status.Code(ask(t.Context(), m)))
			assert.Equal(t, []int{test.a, test.b, test.c}, []int{m.a.Total(), m.totalB(), m.c.Total()})
		})
	}
}

// The adaptive budgets have a reserve, so the first calls multiply, and then no
// more.
func TestMesh_adaptiveUsesItsReserveUp(t *testing.T) {
	t.Parallel()
	m := newTestMesh(t, "adaptive")
	m.enter(down)
	assert.Equal(t, codes.Unavailable, status.Code(ask(t.Context(), m)))
	assert.Greater(t, m.a.Total(), 1)
	assert.Less(t, m.c.Total(), 27)
	before := 0
	const calls = 20
	for range 2 {
		before = m.c.Total()
		for range calls {
			assert.Error(t, ask(t.Context(), m))
		}
	}
	assert.Equal(t, calls, m.c.Total()-before, "one attempt for each call")
}

// Only the strategy with the hint says that retries were refused further down.
func TestMesh_hintReachesTheDriver(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"tokens": false, "adaptive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTestMesh(t, name)
			m.enter(down)
			var calls sync.WaitGroup
			var hinted atomic.Int32
			for range 40 {
				calls.Go(func() {
					var trailer metadata.MD
					assert.Error(t, ask(t.Context(), m, grpc.Trailer(&trailer)))
					if len(trailer["retrybudget-exhausted"]) > 0 {
						hinted.Add(1)
					}
				})
			}
			calls.Wait()
			assert.Equal(t, want, hinted.Load() > 0, "%d calls with the hint", hinted.Load())
		})
	}
}

// A sick B fails what it gets and C does not see it; the other instances do all
// the work.
func TestMesh_oneSickB(t *testing.T) {
	t.Parallel()
	m := newTestMesh(t, "naive")
	require.Eventually(t, func() bool {
		assert.NoError(t, ask(t.Context(), m))
		for i := range m.b {
			if m.b[i].Total() == 0 {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond, "round_robin reaches every instance")

	m.enter(sick)
	a, b, atSick, c := m.a.Total(), m.totalB(), m.b[0].Total(), m.c.Total()
	const calls = 5 * instances
	for range calls {
		assert.NoError(t, ask(t.Context(), m), "a retry goes to the next instance")
	}
	failed := m.b[0].Total() - atSick
	assert.GreaterOrEqual(t, failed, calls/instances)
	assert.Equal(t, calls, m.a.Total()-a)
	assert.Equal(t, calls+failed, m.totalB()-b)
	assert.Equal(t, calls, m.c.Total()-c)
}

func TestMesh_fundsAreTheTokensOfEachEdge(t *testing.T) {
	t.Parallel()
	_, ok := newTestMesh(t, "naive").funds()
	assert.False(t, ok, "no budgets")

	m := newTestMesh(t, "tokens")
	const calls = 30
	for range calls {
		require.NoError(t, ask(t.Context(), m))
	}
	tokens, ok := m.funds()
	assert.True(t, ok)
	assert.InDelta(t, 3, tokens[0], 1e-9, "driver: a tenth of its calls")
	assert.InDelta(t, 3, tokens[1], 1e-9, "A")
	assert.InDelta(t, 0.3, tokens[2], 1e-9, "each B, on average")
}
