package otel_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

// method is rpctest.Method as spans and metrics name it.
const method = "test.Service/Method"

// newMetrics returns a Metrics and what reads it.
func newMetrics(t testing.TB, opts ...retryotel.Option) (*retryotel.Metrics, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	m, err := retryotel.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), opts...)
	require.NoError(t, err)
	return m, reader
}

func newRetrier(t testing.TB, opts ...retrybudget.Option) *retrybudget.Retrier {
	t.Helper()
	r, err := retrybudget.New(append([]retrybudget.Option{retrybudget.WithBudget(retrybudget.Unlimited())}, opts...)...)
	require.NoError(t, err)
	return r
}

// every waits the same time before every retry.
func every(wait time.Duration, attempts int) retrybudget.Option {
	return retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: attempts, Backoff: retrybudget.ConstantBackoff(wait)})
}

// read returns all instruments that have data.
func read(t testing.TB, reader *sdkmetric.ManualReader) []metricdata.Metrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &data)) //nolint:usetesting // also after the test's context ended
	var all []metricdata.Metrics
	for _, scope := range data.ScopeMetrics {
		require.Equal(t, "github.com/retrybudget/retrybudget/providers/otel", scope.Scope.Name)
		all = append(all, scope.Metrics...)
	}
	return all
}

// point is one measurement: of a histogram, the sum, and count is how many.
type point struct {
	attributes attribute.Set
	value      float64
	count      uint64
}

func points(t testing.TB, m metricdata.Metrics) (all []point) {
	t.Helper()
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, float64(p.Value), 0})
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, p.Value, 0})
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, float64(p.Sum), p.Count})
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, p.Sum, p.Count})
		}
	default:
		require.Failf(t, "unknown kind", "%s: %T", m.Name, m.Data)
	}
	return all
}

// text writes attributes without those that name the method.
func text(attributes []attribute.KeyValue) string {
	var words []string
	for _, a := range attributes {
		switch a.Key {
		case "rpc.system.name", "rpc.method", "server.address", "server.port":
		default:
			words = append(words, strings.TrimPrefix(string(a.Key), "retrybudget.")+"="+a.Value.String())
		}
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}

// counts returns a line for each measurement of the instruments named.
func counts(t testing.TB, reader *sdkmetric.ManualReader, except ...string) (lines []string) {
	t.Helper()
	for _, m := range read(t, reader) {
		name := strings.TrimPrefix(m.Name, "retrybudget.")
		if slices.Contains(except, name) {
			continue
		}
		for _, p := range points(t, m) {
			line := fmt.Sprintf("%s %s: %g", name, text(p.attributes.ToSlice()), p.value)
			if p.count > 0 {
				line += fmt.Sprintf(" in %d", p.count)
			}
			lines = append(lines, strings.ReplaceAll(line, " :", ":"))
		}
	}
	sort.Strings(lines)
	return lines
}

// total adds up the measurements of an instrument whose attributes have all of
// with; histograms count how many there are.
func total(t testing.TB, reader *sdkmetric.ManualReader, name string, with ...attribute.KeyValue) (sum float64) {
	t.Helper()
	for _, m := range read(t, reader) {
		if m.Name != name {
			continue
		}
		for _, p := range points(t, m) {
			has := true
			for _, a := range with {
				v, ok := p.attributes.Value(a.Key)
				has = has && ok && v == a.Value
			}
			switch {
			case has && p.count > 0:
				sum += float64(p.count)
			case has:
				sum += p.value
			}
		}
	}
	return sum
}

// newTraces returns a tracer provider and where its spans arrive.
func newTraces(options ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	exporter := tracetest.NewInMemoryExporter()
	return sdktrace.NewTracerProvider(append(options, sdktrace.WithSyncer(exporter))...), exporter
}

// tree draws spans, children under their parents in the order in which they
// started, with the number of the attempt and the events of this project.
func tree(spans tracetest.SpanStubs) string {
	var out strings.Builder
	sort.SliceStable(spans, func(i, j int) bool { return spans[i].StartTime.Before(spans[j].StartTime) })
	var draw func(parent trace.SpanID, indent string)
	draw = func(parent trace.SpanID, indent string) {
		for _, s := range spans {
			if s.Parent.SpanID() != parent {
				continue
			}
			fmt.Fprintf(&out, "%s%s %s", indent, s.SpanKind, s.Name)
			for _, a := range s.Attributes {
				if a.Key == "previous-rpc-attempts" {
					fmt.Fprintf(&out, " %s=%d", a.Key, a.Value.AsInt64())
				}
			}
			fmt.Fprintln(&out)
			for _, e := range s.Events {
				if strings.HasPrefix(e.Name, "retrybudget.") {
					fmt.Fprintf(&out, "%s  * %s %s\n", indent, e.Name, text(e.Attributes))
				}
			}
			draw(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	draw(trace.SpanID{}, "")
	return out.String()
}

// ended is the end of a call whose first attempt succeeded.
func ended(ctx context.Context, target, method string) retrybudget.CallEvent {
	return retrybudget.CallEvent{
		Call: retrybudget.CallInfo{Context: ctx, Target: target, Method: method, Attempt: 1},
		Code: codes.OK, Last: retrybudget.AttemptRecord{Attempt: 1},
	}
}
