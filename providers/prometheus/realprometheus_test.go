package prometheus_test

import (
	"net/url"
	"regexp"
	"slices"
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

// A real Prometheus scrapes clients in an overload and a program whose clients see
// an outage: everything that the dashboard and the alerts ask has an answer, and the
// alerts fire.
func TestRealPrometheus(t *testing.T) {
	t.Parallel()
	program(t, "prometheus", debian)
	began := time.Now()
	played := startStorm(t)
	jobs := map[string][]string{"test": clients(t), "storm": {played.address(t)}}
	s := startPrometheus(t, hasten(readText(t, "prometheus/alerts.yml")), jobs)

	t.Run("the dashboard has no empty panel", func(t *testing.T) {
		assertAnswered(t, s, "all are scraped", "count(max_over_time(up[1m]) == 1) == 3")
		for _, p := range readDashboard(t).Panels {
			for _, q := range p.Targets {
				assertAnswered(t, s, p.Title, substitute(q.Expr, "(test|storm)"))
			}
		}
	})
	t.Run("the queries of the documents have answers", func(t *testing.T) {
		queries := blocks(t, "metrics.md", "promql")
		require.NotEmpty(t, queries)
		for _, q := range queries {
			assertAnswered(t, s, "metrics.md", hasten(q))
		}
	})
	t.Run("exemplars are stored", func(t *testing.T) {
		for _, metric := range []string{"retries_total", "refused_total", "wait_seconds_bucket"} {
			assert.Eventually(t, func() bool {
				var found []struct{ Exemplars []any }
				now := time.Now().Format(time.RFC3339)
				err := s.get("query_exemplars", url.Values{"query": {prefix + metric}, "start": {"1970-01-01T00:00:00Z"}, "end": {now}}, &found)
				return err == nil && len(found) > 0 && len(found[0].Exemplars) > 0
			}, 20*time.Second, 200*time.Millisecond, metric)
		}
	})
	t.Run("the alerts fire", func(t *testing.T) {
		assertFiring(t, s, "RetryBudgetRetryRatioHigh", "Unlimited")
		assertFiring(t, s, "RetryBudgetRetriesUseless", "Unlimited")
		assertFiring(t, s, "RetryBudgetEmpty", "Budgeted")
	})

	played.awaitEnd(t)
	t.Run("the storm fills the dashboard", func(t *testing.T) {
		assertFilled(t, s, "storm", began, map[string]string{
			"Hinted failures":  "its servers send no hints",
			"Would be refused": "none of its clients only observes",
		})
	})
	t.Run("the storm empties its budgets", func(t *testing.T) {
		assertEmptied(t, s, began)
	})
}

// minutes are the times in expressions and rules, of which none is in other units.
var minutes = regexp.MustCompile(`(\[|for: )(\d+)m\b`)

// hasten makes seconds of the minutes.
func hasten(text string) string { return minutes.ReplaceAllString(text, "${1}${2}s") }

// substitute puts in what Grafana would for its variables.
func substitute(expr, job string) string {
	return strings.NewReplacer("$__rate_interval", "2s", "$job", job, "$instance", ".*", "$target", ".*").Replace(expr)
}

// assertFilled checks that every panel has had values for a job, but those that
// cannot, of which a reason is given, have had none.
func assertFilled(t *testing.T, s server, job string, since time.Time, empty map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		seen[p.Title] = true
		for _, q := range p.Targets {
			numbers, err := s.history(substitute(q.Expr, job), since)
			require.NoError(t, err, p.Title)
			if why := empty[p.Title]; why != "" {
				assert.Zero(t, numbers, "%s: %s has values although %s", p.Title, q.Expr, why)
			} else {
				assert.Positive(t, numbers, "%s: %s", p.Title, q.Expr)
			}
		}
	}
	for title := range empty {
		assert.True(t, seen[title], "there is no panel %s", title)
	}
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
	}, 30*time.Second, 200*time.Millisecond)
}

// assertFiring waits until an alert fires for a method of the clients in this test,
// and checks what it says.
func assertFiring(t *testing.T, s server, name, method string) {
	t.Helper()
	var fired alert
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		rules, err := s.rules()
		require.NoError(c, err)
		require.Len(c, rules, 3, "each is to be seen to fire")
		i := slices.IndexFunc(rules, func(r rule) bool { return r.Name == name })
		require.NotEqual(c, -1, i)
		assert.Equal(c, "ok", rules[i].Health, rules[i].LastError)
		fires := slices.IndexFunc(rules[i].Alerts, func(a alert) bool {
			return a.State == "firing" && a.Labels["job"] == "test" && a.Labels["grpc_method"] == method
		})
		require.NotEqual(c, -1, fires, "%v", rules[i].Alerts)
		fired = rules[i].Alerts[fires]
	}, time.Minute, 200*time.Millisecond, name)
	for _, part := range []string{"summary", "description", "runbook"} {
		assert.NotEmpty(t, fired.Annotations[part], "%s of %s", part, name)
	}
	assert.NotRegexp(t, `<error|\{\{|<no value>|NaN`, fired.Annotations["summary"]+fired.Annotations["description"], name)
}

// assertEmptied checks that the alert for empty budgets has fired for each way to
// retry in the storm, and of the clients in this test for one alone.
func assertEmptied(t *testing.T, s server, since time.Time) {
	t.Helper()
	for _, strategy := range []string{"retrybudget", "retrybudget-adaptive", "retrybudget-throttle"} {
		numbers, err := s.history(`ALERTS{alertname="RetryBudgetEmpty", alertstate="firing", job="storm"}
			and on (job, target) grpc_retrybudget_budget_tokens{strategy="`+strategy+`"}`, since)
		require.NoError(t, err)
		assert.Positive(t, numbers, strategy)
	}
	numbers, err := s.history(`ALERTS{alertname="RetryBudgetEmpty", alertstate="firing", job="test", grpc_method!="Budgeted"}`, since)
	require.NoError(t, err)
	assert.Zero(t, numbers, "neither the one that is only observed nor the one without traffic")
}
