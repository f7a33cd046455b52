package prometheus_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// clients call an overloaded server through three Retriers until the test ends: one
// with the default budget, one without any, one that only observes. Their metrics are
// served at the addresses that it returns, as OpenMetrics at the first and as the
// older text format at the second.
func clients(t *testing.T) (addresses []string) {
	t.Helper()
	s := rpctest.New()
	s.Script("/test.Service/Budgeted", overloaded(rpctest.Unavailable()))
	s.Script("/test.Service/Unlimited", overloaded(rpctest.Unavailable(), rpctest.Pushback(rpctest.Unavailable(), "2"),
		rpctest.WithTrailer(rpctest.Unavailable(), "retrybudget-exhausted", "1"), rpctest.Fail(codes.NotFound, "")))
	s.Script("/test.Service/Observed", overloaded(rpctest.Unavailable()))
	l := s.Start(t)
	metrics := prometheus.NewMetrics(prometheus.WithExemplarFromContext(func(context.Context) prom.Labels {
		return prom.Labels{"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"}
	}))
	outside := middleware.NewClientMetrics()
	registry := prom.NewPedanticRegistry()
	registry.MustRegister(metrics, outside)

	var wg sync.WaitGroup
	t.Cleanup(wg.Wait) // t.Context ends before
	start := func(method string, opts ...retrybudget.Option) {
		opts = append(opts, retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(3 * time.Millisecond)}))
		options := []grpc.DialOption{grpc.WithChainUnaryInterceptor(outside.UnaryClientInterceptor())}
		cc := l.Dial(t, append(options, watchedBy(t, metrics, opts...).DialOptions()...)...)
		if method == "/test.Service/Budgeted" {
			require.NoError(t, rpctest.CallMethod(t.Context(), cc, "/test.Service/Idle"), "and never again")
		}
		for range 8 {
			wg.Go(func() { callInALoop(t.Context(), cc, method) })
		}
	}
	start("/test.Service/Budgeted", retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{})))
	start("/test.Service/Unlimited")
	start("/test.Service/Observed", bucket(0), retrybudget.WithMode(retrybudget.Observe))

	for _, openMetrics := range []bool{true, false} {
		server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: openMetrics}))
		t.Cleanup(server.Close)
		addresses = append(addresses, server.Listener.Addr().String())
	}
	return addresses
}

// overloaded does one request at a time and sheds the others, in turn in each of
// these ways.
func overloaded(shed ...rpctest.Step) rpctest.Step {
	busy := make(chan struct{}, 1)
	var turn atomic.Uint64
	return func(ctx context.Context, stream grpc.ServerStream) error {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
			return rpctest.After(50*time.Millisecond, rpctest.OK())(ctx, stream)
		default:
			return shed[turn.Add(1)%uint64(len(shed))](ctx, stream)
		}
	}
}

// callInALoop makes a call every 25 milliseconds or so until ctx ends.
func callInALoop(ctx context.Context, cc *grpc.ClientConn, method string) {
	pause := time.NewTicker(25 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
			_ = rpctest.CallMethod(ctx, cc, method)
		case <-ctx.Done():
			return
		}
	}
}
