// Package prometheus shows what package retrybudget does as Prometheus metrics.
//
//	metrics := prometheus.NewMetrics()
//	r, err := retrybudget.New(retrybudget.WithObserver(metrics))
//	...
//	metrics.Watch(r)
//	registry.MustRegister(metrics)
//
// The names begin with grpc_retrybudget_. The labels grpc_service, grpc_method
// and grpc_code have the names and the values of go-grpc-middleware's Prometheus
// provider, so that its series and these join; target is the target string of the
// connection. docs/metrics.md in the repository lists all metrics, and a dashboard
// and alerts lie beside it.
//
// Always attempts = calls + retries, and the counts of all reasons for which calls
// were refused a retry add up to the failed calls. A call is counted when it ends,
// a retry when it is sent.
//
// For a label that all series should have, register under
// [prometheus.WrapRegistererWith]. To tell Retriers apart, give each a Metrics of
// its own and register each with another value of such a label.
//
// [prometheus.WrapRegistererWith]: https://pkg.go.dev/github.com/prometheus/client_golang/prometheus#WrapRegistererWith
package prometheus
