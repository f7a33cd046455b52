package otel_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

// section is what docs/metrics.md says of OpenTelemetry.
func section(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "\n## OpenTelemetry\n")
	require.True(t, ok)
	own, _, _ := strings.Cut(after, "\n## ")
	return own
}

// The package's documentation and docs/metrics.md show lines of an example, which
// is compiled and run.
func TestDocuments_showTheExample(t *testing.T) {
	t.Parallel()
	_, after, ok := strings.Cut(section(t), "\n```go\n")
	require.True(t, ok)
	shown, _, _ := strings.Cut(after, "```")
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	assert.Contains(t, string(doc), indented("//\t", shown))
	example, err := os.ReadFile("example_metrics_test.go")
	require.NoError(t, err)
	_, body, ok := strings.Cut(string(example), "\nfunc Example() {\n")
	require.True(t, ok)
	body, _, _ = strings.Cut(body, "\n}\n")
	assert.Contains(t, body, indented("\t", shown))
}

// indented returns lines with a prefix before each.
func indented(prefix, lines string) string {
	return prefix + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n"+prefix) + "\n"
}

// instrument is what the table says of one.
type instrument struct {
	Kind, Unit string
	Attributes []string // those that are not the method's
}

var instrumentRow = regexp.MustCompile("(?m)^\\| `(retrybudget\\.[a-z_.]+)` \\| ([\\w -]+) \\| `(\\S+)` \\| (.*?) ?\\| (.+) \\|$")

// code finds what is between backquotes.
var code = regexp.MustCompile("`([^`]+)`")

func quoted(cell string) (all []string) {
	for _, found := range code.FindAllStringSubmatch(cell, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return all
}

func TestMetricsTable(t *testing.T) {
	t.Parallel()
	table := map[string]instrument{}
	for _, cells := range instrumentRow.FindAllStringSubmatch(section(t), -1) {
		require.NotContains(t, table, cells[1], "twice")
		table[cells[1]] = instrument{cells[2], cells[3], quoted(cells[4])}
		assert.True(t, strings.HasSuffix(cells[5], "?"), "%s answers no question: %s", cells[1], cells[5])
	}

	ofMethod := map[attribute.Key]bool{"rpc.system.name": true, "rpc.method": true, "server.address": true, "server.port": true}
	collected := map[string]instrument{}
	for _, m := range read(t, everything(t)) {
		of := instrument{Unit: m.Unit}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			of.Kind = sumKind(data.IsMonotonic)
		case metricdata.Sum[float64]:
			of.Kind = sumKind(data.IsMonotonic)
		case metricdata.Histogram[int64], metricdata.Histogram[float64]:
			of.Kind = "histogram"
		}
		assert.NotEmpty(t, m.Description, m.Name)
		number := 0
		attributes := points(t, m)[0].attributes
		for _, a := range attributes.ToSlice() {
			if ofMethod[a.Key] {
				number++
			} else {
				of.Attributes = append(of.Attributes, string(a.Key))
			}
		}
		if m.Name == "retrybudget.replay.size" {
			assert.Zero(t, number, m.Name)
		} else {
			assert.Len(t, ofMethod, number, m.Name)
		}
		slices.Sort(of.Attributes)
		collected[m.Name] = of
	}
	assert.Equal(t, table, collected)
}

func sumKind(monotonic bool) string {
	if monotonic {
		return "counter"
	}
	return "up-down counter"
}

// everything returns a reader of a Metrics in which each instrument has data.
func everything(t *testing.T) *sdkmetric.ManualReader {
	t.Helper()
	m, reader := newMetrics(t)
	s := rpctest.New()
	hinted := rpctest.WithTrailer(rpctest.Unavailable(), "retrybudget-exhausted", "1")
	s.Script(rpctest.Method, hinted, hinted, rpctest.OK())
	r := newRetrier(t, every(0, 2), retrybudget.WithObserver(m), retrybudget.WithMode(retrybudget.Observe),
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{})))
	m.Watch(r)
	cc := s.Start(t).DialTarget(t, "passthrough:///there:443", r.DialOptions()...)
	require.Error(t, rpctest.Call(t.Context(), cc))
	require.NoError(t, rpctest.Call(t.Context(), cc))
	return reader
}

var eventRow = regexp.MustCompile("(?m)^\\| `(retrybudget\\.\\w+)` \\| (.+) \\|$")

func TestEventsTable(t *testing.T) {
	t.Parallel()
	table := map[string][]string{}
	for _, cells := range eventRow.FindAllStringSubmatch(section(t), -1) {
		if !instrumentRow.MatchString(cells[0]) {
			table[cells[1]] = quoted(cells[2])
		}
	}

	tp, spans := newTraces()
	ctx, span := tp.Tracer("test").Start(t.Context(), "work")
	call := retrybudget.CallInfo{Context: ctx, Method: rpctest.Method, Attempt: 1}
	cause := retrybudget.AttemptRecord{Attempt: 1, Code: codes.Unavailable}
	retryotel.SpanEvents{}.RetrySent(retrybudget.RetryEvent{Call: call, Cause: cause})
	retryotel.SpanEvents{}.RetryRefused(retrybudget.RefusalEvent{Call: call, Cause: cause, Reason: retrybudget.ReasonBudget, Observed: true})
	span.End()
	written := map[string][]string{}
	for _, e := range spans.GetSpans()[0].Events {
		for _, a := range e.Attributes {
			written[e.Name] = append(written[e.Name], string(a.Key))
		}
		slices.Sort(written[e.Name])
	}
	assert.Equal(t, table, written)
}
