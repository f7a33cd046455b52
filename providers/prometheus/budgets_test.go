package prometheus_test

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// The gauges show the budget as it is when they are read.
func TestMetrics_budgetLevels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script("/test.Service/Failing", rpctest.Unavailable())
		r, m := observed(t, atOnce(3), retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 10, Initial: 5})))
		cc := s.Dial(t, r.DialOptions()...)
		assert.Empty(t, collect(t, m).series("budget_tokens"), "nothing was called yet")

		for range 7 {
			require.NoError(t, rpctest.Call(t.Context(), cc))
		}
		require.Error(t, rpctest.CallMethod(t.Context(), cc, "/test.Service/Failing"))

		got := collect(t, m)
		assert.InDelta(t, 5.7, got.sum("budget_tokens", "grpc_method=Method"), 1e-9)
		assert.InDelta(t, 3, got.sum("budget_tokens", "grpc_method=Failing"), 1e-9)
		assert.InDelta(t, 10, got.sum("budget_capacity_tokens", "grpc_method=Failing"), 0)
		require.Error(t, rpctest.CallMethod(t.Context(), cc, "/test.Service/Failing"))
		assert.InDelta(t, 1, collect(t, m).sum("budget_tokens", "grpc_method=Failing"), 1e-9)
	})
}

// The same method of the same target in several Retriers is one series.
func TestMetrics_severalRetriers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := rpctest.New().Start(t)
		m := prometheus.NewMetrics()
		for _, initial := range []int{3, 4} {
			r := watchedBy(t, m, bucket(initial))
			m.Watch(r) // again
			require.NoError(t, rpctest.Call(t.Context(), l.Dial(t, r.DialOptions()...)))
			require.NoError(t, rpctest.Call(t.Context(), l.DialTarget(t, "passthrough:///second", r.DialOptions()...)))
		}

		got := collect(t, m)
		assert.Len(t, got.series("budget_tokens"), 2)
		for _, target := range []string{"passthrough:///bufnet", "passthrough:///second"} {
			assert.InDelta(t, 3.1+4.1, got.sum("budget_tokens", "target="+target), 1e-9)
			assert.InDelta(t, 3.1, got.sum("budget_lowest_tokens", "target="+target), 1e-9)
			assert.InDelta(t, 2*20, got.sum("budget_capacity_tokens", "target="+target), 0)
			assert.InDelta(t, 2, got.sum("calls_total", "target="+target), 0)
		}
	})
}

// hidden is a budget that keeps its level to itself.
type hidden struct{ retrybudget.Budget }

func TestMetrics_budgetsThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	bucket, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{})
	require.NoError(t, err)
	for _, tt := range []struct {
		name   string
		budget retrybudget.BudgetFactory
		want   []float64
	}{
		{"unlimited", retrybudget.Unlimited(), []float64{math.Inf(1)}},
		{"hidden", retrybudget.Shared(hidden{bucket}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, m := observed(t, retrybudget.WithBudget(tt.budget))
				require.NoError(t, rpctest.Call(t.Context(), rpctest.New().Dial(t, r.DialOptions()...)))
				var got []float64
				for _, s := range collect(t, m).series("budget_tokens") {
					got = append(got, s.GetGauge().GetValue())
				}
				assert.Equal(t, tt.want, got)
			})
		})
	}
}

// Else the first scrape would find out, in a goroutine whose panic ends the program.
func TestMetrics_watchRefusesNil(t *testing.T) {
	t.Parallel()
	m := prometheus.NewMetrics()
	assert.PanicsWithValue(t, "retrybudget: Metrics.Watch: nil Retrier", func() { m.Watch(nil) })
	assert.Empty(t, collect(t, m))
}

// A Metrics that watches nothing does not say that there is nothing.
func TestMetrics_withoutWatch(t *testing.T) {
	t.Parallel()
	assert.Empty(t, collect(t, prometheus.NewMetrics()))
}

// What streams hold for replay, of all Retriers together, and nothing when they
// have ended, also when the caller cancelled.
func TestMetrics_replayBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Streams("/test.Service/Upload", func(stream grpc.ServerStream) error {
			<-stream.Context().Done()
			return stream.Context().Err()
		})
		m := prometheus.NewMetrics()
		var held float64
		var cancels []func()
		for range 2 {
			r := watchedBy(t, m)
			cancels = append(cancels, upload(t, s.Dial(t, r.DialOptions()...)))
			held += float64(r.ReplayBytes())
		}
		require.Positive(t, held)

		assert.InDelta(t, held, collect(t, m).sum("replay_bytes"), 0)
		for _, cancel := range cancels {
			cancel()
		}
		synctest.Wait()
		assert.InDelta(t, 0, collect(t, m).sum("replay_bytes"), 0)
	})
}
