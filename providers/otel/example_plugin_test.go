package otel_test

import (
	"fmt"
	"log"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	experimental "google.golang.org/grpc/experimental/opentelemetry"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"

	"github.com/retrybudget/retrybudget"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

// grpc-go's own plugin makes a span of each call and one of each attempt, and
// numbers the attempts. It stands outside the Retrier, so that one span of a call
// has all of them.
func ExampleSpanEvents_grpcPlugin() {
	tracerProvider, spans := newTraces()
	r, err := retrybudget.New(
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 5})),
		retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(0)}),
		retrybudget.WithObserver(retryotel.SpanEvents{}))
	if err != nil {
		log.Fatal(err)
	}
	plugin := grpcotel.DialOption(grpcotel.Options{TraceOptions: experimental.TraceOptions{
		TracerProvider: tracerProvider, TextMapPropagator: propagation.TraceContext{},
	}})
	options := append([]grpc.DialOption{plugin}, r.DialOptions()...)

	target, stop := startInventory(2)
	defer stop()
	getStock(target, options...)
	fmt.Print(tree(spans.GetSpans()))
	// Output:
	// client Sent.retrybudget.quickstart.v1.InventoryService.GetStock
	//   * retrybudget.retry attempt=2 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=0
	//   * retrybudget.retry attempt=3 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=0
	//   internal Attempt.retrybudget.quickstart.v1.InventoryService.GetStock previous-rpc-attempts=0
	//   internal Attempt.retrybudget.quickstart.v1.InventoryService.GetStock previous-rpc-attempts=1
	//   internal Attempt.retrybudget.quickstart.v1.InventoryService.GetStock previous-rpc-attempts=2
}
