// Package otel shows what a [retrybudget.Retrier] does in OpenTelemetry: metrics,
// a span for a whole call, events on it, and the number of the attempt on the
// spans of attempts. It uses the API of OpenTelemetry alone; which SDK collects
// is the program's choice.
//
//	m, err := retryotel.NewMetrics(meterProvider)
//	if err != nil {
//		log.Fatal(err)
//	}
//	r, err := retrybudget.New(
//		retrybudget.WithObserver(m),
//		retrybudget.WithObserver(retryotel.SpanEvents{}))
//	if err != nil {
//		log.Fatal(err)
//	}
//	m.Watch(r) // its budgets and replay buffers, looked at when metrics are collected
//
// It is named after the system, as go-grpc-middleware's providers are; where
// go.opentelemetry.io/otel is imported too, give it another name, as above.
//
// # Order
//
// What is outside the Retrier sees calls, what is inside sees attempts; dial
// options given before those of the Retrier are outside.
//
//   - With otelgrpc, whose spans are those of attempts: [CallSpans], then
//     [retrybudget.Retrier.DialOptions], then otelgrpc's handler, then
//     [NewAttemptHandler].
//   - With grpc-go's own plugin, google.golang.org/grpc/stats/opentelemetry,
//     which makes spans of calls and of attempts and numbers the latter: its
//     option, then DialOptions. Inside, it takes each attempt for a call.
package otel
