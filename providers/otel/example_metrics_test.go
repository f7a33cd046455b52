package otel_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/retrybudget/retrybudget"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

// Metrics of calls, and events on the spans that they are made in: the documentation
// shows these lines. Here a call succeeds and pays for a tenth of a retry.
func Example() {
	reader := sdkmetric.NewManualReader()
	meterProvider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))

	m, err := retryotel.NewMetrics(meterProvider)
	if err != nil {
		log.Fatal(err)
	}
	r, err := retrybudget.New(
		retrybudget.WithObserver(m),
		retrybudget.WithObserver(retryotel.SpanEvents{}))
	if err != nil {
		log.Fatal(err)
	}
	m.Watch(r) // its budgets and replay buffers, looked at when metrics are collected

	target, stop := startInventory(0)
	defer stop()
	getStock(target, r.DialOptions()...)
	printMetrics(reader)
	// Unordered output:
	// retrybudget.calls 1
	// retrybudget.attempts 1
	// retrybudget.budget.tokens 0.1
	// retrybudget.budget.capacity 20
	// retrybudget.replay.size 0
}

// A call whose first attempt fails. In a program the reader is a PeriodicReader
// with an exporter.
func ExampleNewMetrics() {
	reader := sdkmetric.NewManualReader()
	m, err := retryotel.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		log.Fatal(err)
	}
	r, err := retrybudget.New(
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 5})),
		retrybudget.WithObserver(m))
	if err != nil {
		log.Fatal(err)
	}
	m.Watch(r) // its budgets and replay buffers, looked at when metrics are collected

	target, stop := startInventory(1)
	defer stop()
	getStock(target, r.DialOptions()...)
	printMetrics(reader)
	// Unordered output:
	// retrybudget.calls 1
	// retrybudget.attempts 2
	// retrybudget.retries 1
	// retrybudget.retries_succeeded 1
	// retrybudget.budget.tokens 4
	// retrybudget.budget.capacity 20
	// retrybudget.replay.size 0
}

// printMetrics prints what a reader collects, but for histograms.
func printMetrics(reader *sdkmetric.ManualReader) {
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		fmt.Println(err)
		return
	}
	for _, metric := range data.ScopeMetrics[0].Metrics {
		switch points := metric.Data.(type) {
		case metricdata.Sum[int64]:
			sum := int64(0)
			for _, p := range points.DataPoints {
				sum += p.Value
			}
			fmt.Println(metric.Name, sum)
		case metricdata.Sum[float64]:
			fmt.Println(metric.Name, points.DataPoints[0].Value)
		}
	}
}
