package otel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

func TestMetrics_budgets(t *testing.T) {
	t.Parallel()
	s := rpctest.New()
	l := s.Start(t)
	m, reader := newMetrics(t)
	dial := func(initial, keys int, target string) *grpc.ClientConn {
		r := newRetrier(t, retrybudget.WithMaxKeys(keys), retrybudget.WithBudget(retrybudget.PerMethod(
			retrybudget.TokenBucketConfig{Capacity: 10, Ratio: 0.5, Initial: initial})))
		m.Watch(r)
		m.Watch(r) // changes nothing
		return l.DialTarget(t, target, r.DialOptions()...)
	}
	// One retry of each Retrier, which leaves less than a new budget has, so that
	// its key stays.
	s.Script("/a.B/C", rpctest.Unavailable(), rpctest.OK())
	require.NoError(t, rpctest.CallMethod(rpctest.WithCallID(t.Context(), "1"), dial(3, 10, "passthrough:///one:80"), "/a.B/C"))
	other := dial(2, 1, "passthrough:one:80") // the same server, of another Retrier
	require.NoError(t, rpctest.CallMethod(rpctest.WithCallID(t.Context(), "2"), other, "/a.B/C"))
	require.NoError(t, rpctest.CallMethod(t.Context(), other, "/a.B/D"))

	where := []attribute.KeyValue{attribute.String("rpc.system.name", "grpc"), attribute.String("server.address", "one"), attribute.Int("server.port", 80)}
	level := func(name string, with ...attribute.KeyValue) float64 {
		return total(t, reader, "retrybudget.budget."+name, with...)
	}
	assert.InDelta(t, 2+1, level("tokens", append(where, attribute.String("rpc.method", "a.B/C"))...), 1e-9, "added up")
	assert.InDelta(t, 20, level("capacity", append(where, attribute.String("rpc.method", "a.B/C"))...), 1e-9)
	assert.InDelta(t, 2.5, level("tokens", attribute.String("rpc.method", "_OTHER")), 1e-9, "what found no room in its Retrier")
	assert.InDelta(t, 5.5, level("tokens"), 1e-9, "and no more")
}

// Every part of a program may make a Metrics of its own with the program's provider.
func TestMetrics_severalOfOneProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Streams(rpctest.Method, echo)
		l := s.Start(t)
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var held int64
		for _, initial := range []int{3, 4} {
			m, err := retryotel.NewMetrics(provider)
			require.NoError(t, err)
			r := newRetrier(t, retrybudget.WithObserver(m), retrybudget.WithBudget(retrybudget.PerMethod(
				retrybudget.TokenBucketConfig{Initial: initial})))
			m.Watch(r)
			_, err = openStream(ctx, l.Dial(t, r.DialOptions()...))
			require.NoError(t, err)
			held += r.ReplayBytes()
		}
		require.Positive(t, held)
		for range 2 {
			assert.InDelta(t, held, total(t, reader, "retrybudget.replay.size"), 0)
			assert.InDelta(t, 3+4, total(t, reader, "retrybudget.budget.tokens"), 1e-9)
			assert.InDelta(t, 2*20, total(t, reader, "retrybudget.budget.capacity"), 0)
		}
	})
}

// A stream holds what it may have to send again until it is committed.
func TestMetrics_replay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Streams(rpctest.Method, echo)
		m, reader := newMetrics(t)
		r := newRetrier(t, retrybudget.WithObserver(m))
		m.Watch(r)
		assert.Zero(t, total(t, reader, "retrybudget.replay.size"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := openStream(ctx, s.Dial(t, r.DialOptions()...))
		require.NoError(t, err)
		assert.Positive(t, r.ReplayBytes())
		assert.InDelta(t, r.ReplayBytes(), total(t, reader, "retrybudget.replay.size"), 0)
		require.NoError(t, receive(stream))
		assert.Zero(t, total(t, reader, "retrybudget.replay.size"))
	})
}

// A proxy's method names are chosen by its clients.
func TestMetrics_boundedSeries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options []retryotel.Option
		want    int
	}{{nil, 256}, {[]retryotel.Option{retryotel.WithMaxKeys(3)}, 3}} {
		m, reader := newMetrics(t, tt.options...)
		for i := range 3000 {
			m.CallEnded(ended(t.Context(), "dns:///a:1", fmt.Sprintf("/a.B/C%d", i)))
		}
		for _, metric := range read(t, reader) {
			if metric.Name != "retrybudget.replay.size" {
				assert.Len(t, points(t, metric), tt.want+1, metric.Name)
			}
		}
		assert.InDelta(t, 3000-tt.want, total(t, reader, "retrybudget.calls", attribute.String("rpc.method", "_OTHER")), 0)
		assert.InDelta(t, tt.want, total(t, reader, "retrybudget.calls", attribute.String("server.address", "a")), 0)
	}
}

// Nor is their length the program's choice.
func TestMetrics_longNamesAreOther(t *testing.T) {
	t.Parallel()
	m, reader := newMetrics(t)
	longest := "/a.B/" + strings.Repeat("c", 507)
	m.CallEnded(ended(t.Context(), "dns:///a:1", longest))
	m.CallEnded(ended(t.Context(), "dns:///a:1", longest+"c"))
	for _, name := range []string{longest[1:], "_OTHER"} {
		assert.InDelta(t, 1, total(t, reader, "retrybudget.calls", attribute.String("rpc.method", name)), 0, name)
	}
}

// Exporters refuse text that is not UTF-8, and with it all the rest.
func TestMetrics_oddNames(t *testing.T) {
	t.Parallel()
	m, reader := newMetrics(t)
	for _, name := range []string{"", "/", "odd", "/a.B/\xff", "/a.B/c/d"} {
		m.CallEnded(ended(t.Context(), "dns:///\xff", name))
	}
	for name, n := range map[string]float64{"": 2, "odd": 1, "a.B/\uFFFD": 1, "a.B/c/d": 1} {
		assert.InDelta(t, n, total(t, reader, "retrybudget.calls", attribute.String("rpc.method", name)), 0, "%q", name)
	}
}

func TestMetrics_serverAddress(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]struct {
		address string
		port    int
	}{
		"grpc.io:50051":                       {"grpc.io", 50051},
		"localhost":                           {"localhost", 0},
		"[::1]:443":                           {"::1", 443},
		"dns:///grpc.io:50051":                {"grpc.io", 50051},
		"dns:///grpc.io":                      {"grpc.io", 0},
		"dns:grpc.io:50051":                   {"grpc.io", 50051},
		"dns://1.2.3.4/grpc.io:50051":         {"grpc.io", 50051},
		"passthrough:///bufnet":               {"bufnet", 0},
		"unix:///run/some.sock":               {"/run/some.sock", 0},
		"unix:some.sock":                      {"some.sock", 0},
		"zk://zookeeper:2181/my-server":       {"zk://zookeeper:2181/my-server", 0},
		"xds:///service":                      {"xds:///service", 0},
		"ipv4:198.51.100.1:5005,198.51.100.2": {"ipv4:198.51.100.1:5005,198.51.100.2", 0},
		"dns:///grpc.io:99999":                {"grpc.io:99999", 0},
		"%zz":                                 {"%zz", 0},
		"":                                    {"", 0},
	} {
		m, reader := newMetrics(t)
		m.CallEnded(ended(t.Context(), target, "/a.B/C"))
		for _, metric := range read(t, reader) {
			if metric.Name != "retrybudget.calls" {
				continue
			}
			attributes := points(t, metric)[0].attributes
			address, _ := attributes.Value("server.address")
			port, hasPort := attributes.Value("server.port")
			assert.Equal(t, want.address, address.AsString(), target)
			assert.Equal(t, want.port > 0, hasPort, target)
			if hasPort {
				assert.Equal(t, int64(want.port), port.AsInt64(), target)
			}
		}
	}
}
