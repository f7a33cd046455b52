package prometheus

import (
	"context"
	"fmt"

	prom "github.com/prometheus/client_golang/prometheus"
)

// defaultMaxKeys is as many as a Retrier keeps.
const defaultMaxKeys = 1024

// longestMethod is, in bytes, the longest name of a method that has series of its
// own. It is more than a name needs.
const longestMethod = 512

// Option configures a [Metrics] at construction.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	maxKeys  int
	exemplar func(context.Context) prom.Labels
}

// WithMaxKeys bounds the number of (target, method) pairs that have series of
// their own, since a proxy's method names are chosen by its clients. The first n
// to be seen have them; all others together, and methods whose names are longer
// than 512 bytes, are counted under target, service and method "other". Default
// 1,024, as many as a Retrier keeps; [NewMetrics] panics if it is less than 1.
func WithMaxKeys(n int) Option {
	return option(func(s *settings) {
		if n < 1 {
			panic(fmt.Sprintf("retrybudget: prometheus.WithMaxKeys %d is not at least 1", n))
		}
		s.maxKeys = n
	})
}

// WithExemplarFromContext gives retries, refusals and waits the exemplar that f
// makes of the call's context, usually the id of its trace; nil means none. A
// function made for go-grpc-middleware's option of this name fits. f runs only when
// something failed, on the goroutine of the call; it must be quick and safe for
// concurrent use. Exemplars that Prometheus does not allow, such as those of more
// than 128 characters, are left out. They are shown only when scraped as
// OpenMetrics. Default: no exemplars.
func WithExemplarFromContext(f func(context.Context) prom.Labels) Option {
	return option(func(s *settings) { s.exemplar = f })
}
