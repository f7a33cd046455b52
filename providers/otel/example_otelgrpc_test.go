package otel_test

import (
	"fmt"
	"log"
	"slices"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

// With otelgrpc, which makes a span of each attempt: the spans of calls outside
// the Retrier, otelgrpc's inside, and after it what numbers them. Two attempts
// fail; the third succeeds.
func ExampleCallSpans_otelgrpc() {
	tracerProvider, spans := newTraces()
	r, err := retrybudget.New(
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 5})),
		retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(0)}),
		retrybudget.WithObserver(retryotel.SpanEvents{}))
	if err != nil {
		log.Fatal(err)
	}
	options := slices.Concat(
		retryotel.CallSpans(tracerProvider),
		r.DialOptions(),
		[]grpc.DialOption{
			grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(tracerProvider))),
			grpc.WithStatsHandler(retryotel.NewAttemptHandler()),
		})

	target, stop := startInventory(2)
	defer stop()
	getStock(target, options...)
	fmt.Print(tree(spans.GetSpans()))
	// Output:
	// internal retrybudget.quickstart.v1.InventoryService/GetStock
	//   * retrybudget.retry attempt=2 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=0
	//   * retrybudget.retry attempt=3 from_guidance=false rpc.response.status_code=UNAVAILABLE wait=0
	//   client retrybudget.quickstart.v1.InventoryService/GetStock previous-rpc-attempts=0
	//   client retrybudget.quickstart.v1.InventoryService/GetStock previous-rpc-attempts=1
	//   client retrybudget.quickstart.v1.InventoryService/GetStock previous-rpc-attempts=2
}
