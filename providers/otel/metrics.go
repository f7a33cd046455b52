package otel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/retrybudget/retrybudget"
)

// Metrics counts what happens to calls, in instruments whose names begin with
// retrybudget; docs/metrics.md in the repository lists them. It is a
// [retrybudget.Observer], for [retrybudget.WithObserver]. One Metrics may serve
// several Retriers: what happens to the same method of the same server is added
// up, and so is what several Metrics of one provider count. It is safe for
// concurrent use.
//
// Always attempts = calls + retries, and the refusals of all reasons add up to the
// failed calls. A call is counted when it ends, a retry when it is sent.
//
// Make one with [NewMetrics]; the zero value is not usable.
type Metrics struct {
	retrybudget.NopObserver

	instruments
	table *table

	mu       sync.Mutex
	retriers []*retrybudget.Retrier
}

var _ retrybudget.Observer = (*Metrics)(nil)

// NewMetrics returns a Metrics whose instruments are made by mp, or an error that
// says which could not be made, or which option is invalid.
func NewMetrics(mp metric.MeterProvider, opts ...Option) (*Metrics, error) {
	if mp == nil {
		return nil, errors.New("retrybudget: NewMetrics: nil MeterProvider")
	}
	s := settings{maxKeys: defaultMaxKeys}
	var failed []error
	for i, o := range opts {
		if o == nil {
			failed = append(failed, fmt.Errorf("retrybudget: NewMetrics: option %d is nil", i))
			continue
		}
		failed = append(failed, o.apply(&s))
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	meter := mp.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	m := &Metrics{table: newTable(s.maxKeys)}
	var err error
	if m.instruments, err = newInstruments(meter); err != nil {
		return nil, fmt.Errorf("retrybudget: NewMetrics: %w", err)
	}
	if _, err = meter.RegisterCallback(m.observe, m.tokens, m.capacity, m.replay); err != nil {
		return nil, fmt.Errorf("retrybudget: NewMetrics: %w", err)
	}
	return m, nil
}

// Watch adds r to the Retriers whose budgets and replay buffers are shown. They
// are looked at when metrics are collected, so watching costs calls nothing. The
// levels of the same method of the same server in several Retriers are added up;
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

// level is the state of a budget, or of several added up.
type level struct{ tokens, capacity float64 }

// observe reads the state of the watched Retriers when metrics are collected.
func (m *Metrics) observe(_ context.Context, o metric.Observer) error {
	levels := map[*series]level{}
	var replay int64
	for _, r := range m.watched() {
		replay += r.ReplayBytes()
		for b := range r.Budgets() {
			s := m.table.get(b.Target, b.Method)
			sum := levels[s]
			levels[s] = level{sum.tokens + b.Tokens, sum.capacity + b.Capacity}
		}
	}
	for s, l := range levels {
		o.ObserveFloat64(m.tokens, l.tokens, s.observe)
		o.ObserveFloat64(m.capacity, l.capacity, s.observe)
	}
	o.ObserveInt64(m.replay, replay)
	return nil
}
