package prometheus_test

import (
	"slices"
	"strings"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

const prefix = "grpc_retrybudget_"

// observed returns a Retrier without a budget, unless opts have one, and the
// Metrics that watch it.
func observed(t testing.TB, opts ...retrybudget.Option) (*retrybudget.Retrier, *prometheus.Metrics) {
	t.Helper()
	m := prometheus.NewMetrics()
	return watchedBy(t, m, opts...), m
}

func watchedBy(t testing.TB, m *prometheus.Metrics, opts ...retrybudget.Option) *retrybudget.Retrier {
	t.Helper()
	r, err := retrybudget.New(append([]retrybudget.Option{retrybudget.WithBudget(retrybudget.Unlimited()), retrybudget.WithObserver(m)}, opts...)...)
	require.NoError(t, err)
	m.Watch(r)
	return r
}

// atOnce retries without a wait.
func atOnce(attempts int) retrybudget.Option {
	return retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: attempts, Backoff: retrybudget.ConstantBackoff(0)})
}

// bucket is a budget of a number of tokens at the start.
func bucket(initial int) retrybudget.Option {
	return retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: initial}))
}

// scrape is what one collection gives.
type scrape []*dto.MetricFamily

func collect(t testing.TB, m *prometheus.Metrics) scrape {
	t.Helper()
	registry := prom.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	return families
}

// series returns those of a family, without the prefix, that have the given
// labels, written name=value.
func (s scrape) series(name string, labels ...string) (found []*dto.Metric) {
	for _, f := range s {
		if f.GetName() != prefix+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if !slices.ContainsFunc(labels, func(l string) bool { return !hasLabel(m, l) }) {
				found = append(found, m)
			}
		}
	}
	return found
}

func hasLabel(m *dto.Metric, label string) bool {
	name, value, _ := strings.Cut(label, "=")
	return slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool { return p.GetName() == name && p.GetValue() == value })
}

// sum adds up the values of these series, for histograms their counts.
func (s scrape) sum(name string, labels ...string) (total float64) {
	for _, m := range s.series(name, labels...) {
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return total
}

// by returns the values of a family, one method's, by one of its labels.
func (s scrape) by(name, label string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range s.series(name) {
		for _, p := range m.GetLabel() {
			if p.GetName() == label {
				all[p.GetValue()] += m.GetCounter().GetValue()
			}
		}
	}
	return all
}
