package prometheus_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// all returns a registry in which every metric has a series.
func all(t *testing.T) *prom.Registry {
	t.Helper()
	registry := prom.NewPedanticRegistry()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.WithTrailer(rpctest.Unavailable(), "retrybudget-exhausted", "1"), rpctest.OK())
		s.Script("/test.Service/Failing", rpctest.Unavailable())
		r, m := observed(t, bucket(4), atOnce(3))
		cc := s.Dial(t, r.DialOptions()...)
		require.NoError(t, rpctest.Call(t.Context(), cc))
		require.Error(t, rpctest.CallMethod(t.Context(), cc, "/test.Service/Failing"))
		require.NoError(t, r.SetMode(retrybudget.Observe))
		require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), "another"), cc))
		require.NoError(t, registry.Register(m))
	})
	return registry
}

func TestMetrics_lint(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(all(t))

	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestMetrics_registerTwice(t *testing.T) {
	t.Parallel()
	registry := prom.NewRegistry()
	m := prometheus.NewMetrics()
	require.NoError(t, registry.Register(m))
	assert.ErrorAs(t, registry.Register(m), new(prom.AlreadyRegisteredError))
	assert.Error(t, registry.Register(prometheus.NewMetrics()))

	registry = prom.NewRegistry()
	for _, client := range []string{"inventory", "orders"} {
		metrics := prometheus.NewMetrics()
		prom.WrapRegistererWith(prom.Labels{"client": client}, registry).MustRegister(metrics)
	}
	_, err := registry.Gather()
	assert.NoError(t, err)
}

type traceKey struct{}

// Exemplars lead from what went wrong to a trace of it; a success has none, and
// does not ask for one.
func TestWithExemplarFromContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		s.Script("/test.Service/Failing", rpctest.Unavailable())
		asked := 0
		m := prometheus.NewMetrics(prometheus.WithExemplarFromContext(func(ctx context.Context) prom.Labels {
			asked++
			if id, ok := ctx.Value(traceKey{}).(string); ok {
				return prom.Labels{"trace_id": id}
			}
			return nil
		}))
		r := watchedBy(t, m, bucket(1), retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(0)}))
		cc := s.Dial(t, r.DialOptions()...)
		for _, traced := range []context.Context{context.WithValue(t.Context(), traceKey{}, "abc"), t.Context()} {
			require.NoError(t, rpctest.Call(rpctest.WithCallID(traced, rpctest.Method), cc))
			require.Error(t, rpctest.CallMethod(traced, cc, "/test.Service/Failing"))
		}
		require.Positive(t, asked)
		before := asked
		require.NoError(t, rpctest.CallMethod(t.Context(), cc, "/test.Service/Fine"))
		assert.Equal(t, before, asked)

		got := collect(t, m)
		exemplar := got.series("retries_total", "grpc_method=Method")[0].GetCounter().GetExemplar()
		require.NotNil(t, exemplar)
		assert.Equal(t, "trace_id", exemplar.GetLabel()[0].GetName())
		assert.Equal(t, "abc", exemplar.GetLabel()[0].GetValue())
		assert.NotNil(t, got.series("refused_total", "reason=budget")[0].GetCounter().GetExemplar())
		assert.NotNil(t, got.series("wait_seconds", "grpc_method=Method")[0].GetHistogram().GetBucket()[0].GetExemplar())
	})
}

// An exemplar that Prometheus does not allow must not fail a call, nor its count.
func TestWithExemplarFromContext_notAllowed(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]prom.Labels{
		"too long": {"trace_id": strings.Repeat("a", 200)}, "not UTF-8": {"trace_id": "\xff"}, "no name": {"": "a"}, "empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				m := prometheus.NewMetrics(prometheus.WithExemplarFromContext(func(context.Context) prom.Labels { return labels }))
				r := watchedBy(t, m, atOnce(3))

				require.ErrorIs(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)), retrybudget.ErrAttemptsExhausted)

				got := collect(t, m)
				assert.InDelta(t, 2, got.sum("retries_total"), 0)
				assert.InDelta(t, 2, got.sum("wait_seconds"), 0)
				assert.InDelta(t, 1, got.sum("refused_total"), 0)
			})
		})
	}
}
