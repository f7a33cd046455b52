package prometheus

import (
	"fmt"
	"slices"
	"sync"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/retrybudget/retrybudget"
)

// Metrics counts what happens to calls. It is a [retrybudget.Observer], for
// [retrybudget.WithObserver], and a Prometheus collector, to be registered. One
// Metrics may serve several Retriers: what happens to the same method of the same
// target is added up. It is safe for concurrent use.
//
// Make one with [NewMetrics]; the zero value is not usable.
type Metrics struct {
	retrybudget.NopObserver

	settings settings
	table    *table
	vectors  vectors

	mu       sync.Mutex
	retriers []*retrybudget.Retrier
}

var (
	_ retrybudget.Observer = (*Metrics)(nil)
	_ prom.Collector       = (*Metrics)(nil)
)

// NewMetrics returns a Metrics. It panics on invalid options, as
// regexp.MustCompile does.
func NewMetrics(opts ...Option) *Metrics {
	m := &Metrics{settings: settings{maxKeys: defaultMaxKeys}, vectors: newVectors()}
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("retrybudget: prometheus.NewMetrics: option %d is nil", i))
		}
		o.apply(&m.settings)
	}
	m.table = newTable(m.settings.maxKeys)
	return m
}

// Watch adds r to the Retriers whose budgets and replay buffers are shown. They
// are looked at when metrics are collected, so watching costs calls nothing. The
// levels of the same method of the same target in several Retriers are added up;
// watching one twice changes nothing. A Retrier is kept as long as the Metrics.
// It panics when r is nil.
func (m *Metrics) Watch(r *retrybudget.Retrier) {
	if r == nil {
		panic("retrybudget: Metrics.Watch: nil Retrier")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.retriers, r) {
		m.retriers = append(m.retriers, r)
	}
}

func (m *Metrics) watched() []*retrybudget.Retrier {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.retriers)
}

// Describe implements [prom.Collector].
func (m *Metrics) Describe(ch chan<- *prom.Desc) {
	for _, d := range descriptions() {
		ch <- d
	}
	for _, v := range m.vectors.all() {
		v.Describe(ch)
	}
}

// Collect implements [prom.Collector].
func (m *Metrics) Collect(ch chan<- prom.Metric) {
	m.collectBudgets(ch)
	for _, s := range m.table.series() {
		s.collect(ch)
	}
	for _, v := range m.vectors.all() {
		v.Collect(ch)
	}
}
