package prometheus_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget/internal/rpctest"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// go-grpc-middleware's metrics outside count the same calls, inside the same
// attempts, under the same labels with the same values.
func TestMetrics_joinThoseOfTheMiddleware(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		s.Script("/pkg.v1.Service/Missing", rpctest.Fail(codes.NotFound, ""))
		s.Script("/pkg.v1.Service/Odd/Name", rpctest.Fail(codes.Internal, ""))
		r, m := observed(t)
		outside, inside := middleware.NewClientMetrics(), middleware.NewClientMetrics()
		options := append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(outside.UnaryClientInterceptor())}, r.DialOptions()...)
		cc := s.Dial(t, append(options, grpc.WithChainUnaryInterceptor(inside.UnaryClientInterceptor()))...)
		for _, method := range []string{rpctest.Method, "/pkg.v1.Service/Missing", "/pkg.v1.Service/Odd/Name"} {
			_ = rpctest.CallMethod(t.Context(), cc, method)
		}

		got := collect(t, m)
		assert.Len(t, handled(t, outside), 3)
		assert.Equal(t, handled(t, outside), shared(got, "calls_total"))
		assert.Equal(t, handled(t, inside), shared(got, "attempts_total"))
	})
}

// A function that makes exemplars for the middleware makes them here too.
func TestWithExemplarFromContext_takesTheMiddlewaresFunctions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		exemplar := func(context.Context) prom.Labels {
			asked++
			return prom.Labels{"trace_id": "abc"}
		}
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		m := prometheus.NewMetrics(prometheus.WithExemplarFromContext(exemplar))
		r := watchedBy(t, m, bucket(0))
		outside := middleware.NewClientMetrics().UnaryClientInterceptor(middleware.WithExemplarFromContext(exemplar))
		options := append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(outside)}, r.DialOptions()...)

		require.Error(t, rpctest.Call(t.Context(), s.Dial(t, options...)))

		assert.Greater(t, asked, 1)
		assert.NotNil(t, collect(t, m).series("refused_total")[0].GetCounter().GetExemplar())
	})
}

// handled returns what the middleware counted, by the labels that are shared.
func handled(t *testing.T, m *middleware.ClientMetrics) map[string]float64 {
	t.Helper()
	registry := prom.NewRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "grpc_client_handled_total" {
			*f.Name = prefix + "handled"
		}
	}
	return shared(families, "handled")
}

// shared returns the values of a family by the labels that both have.
func shared(s scrape, name string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range s.series(name) {
		var labels []string
		for _, p := range m.GetLabel() {
			if strings.HasPrefix(p.GetName(), "grpc_") && p.GetName() != "grpc_type" {
				labels = append(labels, p.String())
			}
		}
		all[strings.Join(labels, " ")] += m.GetCounter().GetValue()
	}
	return all
}
