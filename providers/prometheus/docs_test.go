package prometheus_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// row is a metric as docs/metrics.md describes it.
type row struct {
	Kind, Unit string
	Labels     []string
}

// tableRow finds the cells of a row whose first is the name of a metric.
var tableRow = regexp.MustCompile("(?m)^\\| `(grpc_retrybudget_\\w+)` \\| (\\w+) \\| (\\w+) \\| (.*?) ?\\| (.+) \\|$")

func documented(t *testing.T) map[string]row {
	t.Helper()
	all := map[string]row{}
	for _, cells := range tableRow.FindAllStringSubmatch(readText(t, "metrics.md"), -1) {
		require.NotContains(t, all, cells[1], "twice")
		var labels []string
		for l := range strings.SplitSeq(cells[4], ", ") {
			if l != "" {
				labels = append(labels, strings.Trim(l, "`"))
			}
		}
		slices.Sort(labels)
		all[cells[1]] = row{cells[2], cells[3], labels}
		assert.True(t, strings.HasSuffix(cells[5], "?"), "%s answers no question: %s", cells[1], cells[5])
	}
	require.NotEmpty(t, all)
	return all
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	require.NoError(t, err)
	return string(text)
}

// blocks returns the blocks of code in a language.
func blocks(t *testing.T, doc, language string) (found []string) {
	t.Helper()
	for _, part := range strings.Split(readText(t, doc), "\n```"+language+"\n")[1:] {
		block, _, closed := strings.Cut(part, "```")
		require.True(t, closed)
		found = append(found, block)
	}
	return found
}

func TestMetricsDoc_snippetsAreFromTests(t *testing.T) {
	t.Parallel()
	snippets := blocks(t, "metrics.md", "go") // those of OpenTelemetry follow
	require.GreaterOrEqual(t, len(snippets), 2)
	for i, file := range []string{"example_test.go", "collector_test.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := strings.NewReplacer("\n\t\t", "\n", "\n\t", "\n").Replace(string(text))
		for line := range strings.Lines(snippets[i]) {
			assert.Contains(t, lines, "\n"+strings.TrimLeft(line, "\t"), file)
		}
	}
}

func TestMetricsTable_isWhatIsCollected(t *testing.T) {
	t.Parallel()
	families, err := all(t).Gather()
	require.NoError(t, err)
	table := documented(t)
	collected := map[string]row{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		collected[f.GetName()] = row{strings.ToLower(f.GetType().String()), table[f.GetName()].Unit, labels}
		// The unit's name ends that of the metric, or it is what is counted.
		unit := table[f.GetName()].Unit
		switch {
		case f.GetType() == dto.MetricType_COUNTER:
			assert.True(t, strings.HasSuffix(f.GetName(), "_total"))
			assert.Contains(t, []string{"calls", "attempts", "retries"}, unit, f.GetName())
		case unit == "tokens" || unit == "seconds" || unit == "bytes" || unit == "attempts":
			assert.True(t, strings.HasSuffix(f.GetName(), "_"+unit), "%s is in %s", f.GetName(), unit)
		default:
			assert.Fail(t, "no such unit", "%s %s", f.GetName(), unit)
		}
	}

	assert.Equal(t, table, collected)
}

// metricName finds names of metrics, also those of the series of a histogram.
var metricName = regexp.MustCompile(`\bgrpc_retrybudget_\w+`)

// assertDocumented checks that all metrics that a text names are in the table.
func assertDocumented(t *testing.T, text, where string) {
	t.Helper()
	table := documented(t)
	for _, name := range metricName.FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); table[base].Kind == "histogram" {
				name = base
			}
		}
		assert.Contains(t, table, name, "named in %s", where)
	}
}

func TestAlerts_nameMetricsThatExist(t *testing.T) {
	t.Parallel()
	assertDocumented(t, readText(t, "prometheus/alerts.yml"), "alerts.yml")
	assertDocumented(t, readText(t, "prometheus/alerts_test.yml"), "alerts_test.yml")
	assertDocumented(t, readText(t, "metrics.md"), "metrics.md")
}

func TestAlerts_tableListsThem(t *testing.T) {
	t.Parallel()
	names := func(pattern, text string) (all []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	alerts := names(`(?m)^ +- alert: (\w+)$`, readText(t, "prometheus/alerts.yml"))
	require.NotEmpty(t, alerts)
	assert.Equal(t, alerts, names("(?m)^\\| `(RetryBudget\\w+)` \\|", readText(t, "metrics.md")))
}

// dashboard is the part of Grafana's format that is tested.
type dashboard struct {
	ID         *int
	UID        string
	Title      string
	Templating struct{ List []variable }
	Panels     []panel
}

type variable struct {
	Name, Type, Definition, AllValue string
	Datasource                       source
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr string
		Datasource  source
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(readText(t, "grafana/retrybudget.json")), &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// The dashboard belongs to no installation: what it shows comes from the chosen
// data source, jobs, instances and targets.
func TestDashboard_canBeImported(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	assert.Nil(t, d.ID)
	assert.Equal(t, "retrybudget", d.UID)
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Type == "query" {
			assert.Equal(t, source{"prometheus", "${datasource}"}, v.Datasource, v.Name)
			assertDocumented(t, v.Definition, "the variable "+v.Name)
		}
	}
	assert.Equal(t, []string{"datasource", "job", "instance", "target"}, names)
	ids, taken := map[int]bool{}, map[string]string{}
	for _, p := range d.Panels {
		assert.NotEmpty(t, p.Title)
		assert.False(t, ids[p.ID], "%s has the id of another panel", p.Title)
		ids[p.ID] = true
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				cell := fmt.Sprint(x, ",", y)
				assert.NotContains(t, taken, cell, "%s covers %s", p.Title, taken[cell])
				taken[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		assert.NotEmpty(t, p.Description, p.Title)
		assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		assert.Equal(t, source{"prometheus", "${datasource}"}, p.Datasource, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, q := range p.Targets {
			assert.Equal(t, source{"prometheus", "${datasource}"}, q.Datasource, p.Title)
			assertDocumented(t, q.Expr, "the panel "+p.Title)
			assert.NotContains(t, []string{"", " "}, q.RefID)
		}
	}
}

// Every metric is shown somewhere, and is chosen by job and instance.
func TestDashboard_showsEveryMetric(t *testing.T) {
	t.Parallel()
	missing := documented(t)
	selector := regexp.MustCompile(`\b(grpc_retrybudget_\w+)(\{[^}]*\})?`)
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			for _, m := range selector.FindAllStringSubmatch(q.Expr, -1) {
				assert.Contains(t, m[2], `job=~"$job", instance=~"$instance"`, p.Title)
				for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
					delete(missing, strings.TrimSuffix(m[1], suffix))
				}
			}
		}
	}
	assert.Empty(t, slices.Collect(maps.Keys(missing)))
}
