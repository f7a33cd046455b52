package prometheus_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAlerts_promtool(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "../../docs/prometheus/alerts.yml")
	promtool(t, "test", "rules", "../../docs/prometheus/alerts_test.yml")
}

// A real Prometheus scrapes a client in an overload: everything that the dashboard
// and the alerts ask has an answer, and the alerts fire.
func TestRealPrometheus(t *testing.T) {
	t.Parallel()
	program(t, "prometheus")
	s := startPrometheus(t, hasten(readText(t, "prometheus/alerts.yml")), storm(t))

	t.Run("the dashboard has no empty panel", func(t *testing.T) {
		t.Parallel()
		for _, p := range readDashboard(t).Panels {
			for _, q := range p.Targets {
				assertAnswered(t, s, p.Title, substitute(q.Expr))
			}
		}
	})
	t.Run("the queries of the documents have answers", func(t *testing.T) {
		t.Parallel()
		queries := blocks(t, "metrics.md", "promql")
		require.NotEmpty(t, queries)
		for _, q := range queries {
			assertAnswered(t, s, "metrics.md", hasten(q))
		}
	})
	t.Run("the alerts fire", func(t *testing.T) {
		t.Parallel()
		assertFiring(t, s)
	})
	t.Run("exemplars are stored", func(t *testing.T) {
		t.Parallel()
		for _, metric := range []string{"retries_total", "refused_total", "wait_seconds_bucket"} {
			assert.Eventually(t, func() bool {
				var found []struct{ Exemplars []any }
				now := time.Now().Format(time.RFC3339)
				err := s.get("query_exemplars", url.Values{"query": {prefix + metric}, "start": {"1970-01-01T00:00:00Z"}, "end": {now}}, &found)
				return err == nil && len(found) > 0 && len(found[0].Exemplars) > 0
			}, 20*time.Second, 200*time.Millisecond, metric)
		}
	})
}

// minutes are the times in expressions and rules, of which none is in other units.
var minutes = regexp.MustCompile(`(\[|for: )(\d+)m\b`)

// hasten makes seconds of the minutes.
func hasten(text string) string { return minutes.ReplaceAllString(text, "${1}${2}s") }

// substitute puts in what Grafana would for its variables.
func substitute(expr string) string {
	return strings.NewReplacer("$__rate_interval", "2s", "$job", ".*", "$instance", ".*", "$target", ".*").Replace(expr)
}

// assertAnswered waits until an expression has a value that is a number.
func assertAnswered(t *testing.T, s server, title, expr string) {
	t.Helper()
	assert.NotContains(t, expr, "$", title)
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		found, err := s.query(expr)
		require.NoError(c, err)
		numbers := 0
		for _, f := range found {
			if f.Value[1] != "NaN" {
				numbers++
			}
		}
		assert.Positive(c, numbers, "%s: %s gives %v", title, expr, found)
	}, 20*time.Second, 200*time.Millisecond)
}

// assertFiring waits until all alerts fire, for the methods that they should.
func assertFiring(t *testing.T, s server) {
	t.Helper()
	var all []rule
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		all, err = s.rules()
		require.NoError(c, err)
		require.Len(c, all, 3)
		for _, r := range all {
			assert.Equal(c, "firing", r.State, r.Name)
		}
	}, 40*time.Second, 200*time.Millisecond)
	firing := map[string][]string{} // methods by alert
	for _, r := range all {
		assert.Equal(t, "ok", r.Health, r.Name)
		assert.Empty(t, r.LastError, r.Name)
		for _, a := range r.Alerts {
			if a.State != "firing" {
				continue
			}
			firing[r.Name] = append(firing[r.Name], a.Labels["grpc_method"])
			assert.Equal(t, "storm", a.Labels["job"])
			for _, name := range []string{"summary", "description", "runbook"} {
				assert.NotEmpty(t, a.Annotations[name], "%s of %s", name, r.Name)
				assert.NotRegexp(t, `<error|\{\{|<no value>|NaN`, a.Annotations["summary"]+a.Annotations["description"], r.Name)
			}
		}
	}
	assert.Contains(t, firing["RetryBudgetRetryRatioHigh"], "Unlimited")
	assert.Contains(t, firing["RetryBudgetRetriesUseless"], "Unlimited")
	assert.Equal(t, []string{"Budgeted"}, firing["RetryBudgetEmpty"], "neither the one that is only observed nor the one without traffic")
}
