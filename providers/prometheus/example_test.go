package prometheus_test

import (
	"context"
	"fmt"
	"log"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// down stands for a server that is down.
func down(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
	return status.Error(codes.Unavailable, "down")
}

// The Metrics are made first, because the Retrier is told of them, and told of the
// Retrier then, because its budgets are shown too. A budget starts empty.
func ExampleNewMetrics() {
	registry := prom.NewRegistry()

	metrics := prometheus.NewMetrics()
	r, err := retrybudget.New(retrybudget.WithObserver(metrics))
	if err != nil {
		log.Fatal(err)
	}
	metrics.Watch(r) // its budgets and replay buffers, looked at when metrics are collected
	registry.MustRegister(metrics)

	conn, err := grpc.NewClient("dns:///inventory.example.com:443", append(r.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(down))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	_ = conn.Invoke(context.Background(), "/inventory.v1.Stock/Get", nil, nil)
	text, err := testutil.CollectAndFormat(metrics, expfmt.TypeTextPlain, "grpc_retrybudget_budget_tokens", "grpc_retrybudget_refused_total")
	fmt.Print(string(text), err)
	// Output:
	// # HELP grpc_retrybudget_budget_tokens Tokens in the budget that retries could take now; one pays for an ordinary retry.
	// # TYPE grpc_retrybudget_budget_tokens gauge
	// grpc_retrybudget_budget_tokens{grpc_method="Get",grpc_service="inventory.v1.Stock",target="dns:///inventory.example.com:443"} 0
	// # HELP grpc_retrybudget_refused_total Failed calls, by the reason why no retry, or no other, followed.
	// # TYPE grpc_retrybudget_refused_total counter
	// grpc_retrybudget_refused_total{grpc_method="Get",grpc_service="inventory.v1.Stock",reason="budget",target="dns:///inventory.example.com:443"} 1
	// <nil>
}
