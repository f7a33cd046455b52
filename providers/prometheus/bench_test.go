package prometheus_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// success returns a function that makes n calls that succeed at once, by an invoker
// that does nothing: what is left is the interceptor's own cost.
func success(t testing.TB, opts ...retrybudget.Option) func(n int) {
	t.Helper()
	cc, err := grpc.NewClient("dns:///inventory.example.com:443", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	r, err := retrybudget.New(opts...)
	require.NoError(t, err)
	call, ctx := r.UnaryClientInterceptor(), t.Context()
	invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	options := []grpc.CallOption{grpc.StaticMethod()}
	return func(n int) {
		for range n {
			_ = call(ctx, "/retrybudget.quickstart.v1.InventoryService/GetStock", nil, nil, cc, invoker, options...)
		}
	}
}

// Runs of a hundred calls without an observer and with one take turns, so that
// whatever else the machine does slows both. What is reported is the median of the
// differences.
func BenchmarkOverhead(b *testing.B) {
	for _, bm := range []struct {
		name     string
		observer retrybudget.Observer
	}{
		{"NopObserver", retrybudget.NopObserver{}},
		{"Metrics", prometheus.NewMetrics()},
	} {
		b.Run(bm.name, func(b *testing.B) {
			const calls = 100
			without, with := success(b), success(b, retrybudget.WithObserver(bm.observer))
			without(1000)
			with(1000)
			var none, extra []float64
			for b.Loop() {
				start := time.Now()
				without(calls)
				middle := time.Now()
				with(calls)
				base := float64(middle.Sub(start)) / calls
				none = append(none, base)
				extra = append(extra, float64(time.Since(middle))/calls-base)
			}
			b.ReportMetric(0, "ns/op") // it would be the sum of both
			b.ReportMetric(median(none), "ns/call-without")
			b.ReportMetric(median(extra), "ns/call-more")
		})
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// Not parallel: it counts the allocations of the process.
func TestMetrics_allocatesNothingOnSuccess(t *testing.T) {
	without, with := success(t), success(t, retrybudget.WithObserver(prometheus.NewMetrics()))
	none := testing.AllocsPerRun(1000, func() { without(1) })

	assert.InDelta(t, none, testing.AllocsPerRun(1000, func() { with(1) }), 0)
}
