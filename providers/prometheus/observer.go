package prometheus

import (
	"context"
	"strconv"

	prom "github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// CallEnded implements [retrybudget.Observer].
func (m *Metrics) CallEnded(e retrybudget.CallEvent) {
	s := m.table.get(e.Call.Target, e.Call.Method)
	if e.Code == codes.OK && e.Call.Attempt == 1 {
		s.okAtOnce.Add(1)
		return
	}
	s.ended(e.Code, e.Last.Code, e.Call.Attempt)
	labels := s.names.values()
	if e.Last.Exhausted {
		m.vectors.hinted.WithLabelValues(labels...).Inc()
	}
	if e.Code == codes.OK {
		m.vectors.succeeded.WithLabelValues(labels...).Inc()
		return
	}
	count(m.vectors.refused.WithLabelValues(s.names.values(e.Reason.String())...), m.exemplar(e.Call.Context))
}

// RetrySent implements [retrybudget.Observer].
func (m *Metrics) RetrySent(e retrybudget.RetryEvent) {
	s := m.table.get(e.Call.Target, e.Call.Method)
	s.attempts[slot(e.Cause.Code)].Add(1)
	exemplar := m.exemplar(e.Call.Context)
	count(m.vectors.retries.WithLabelValues(s.names.values(codeNames[slot(e.Cause.Code)], strconv.FormatBool(e.FromGuidance))...), exemplar)
	observe(m.vectors.wait.WithLabelValues(s.names.values()...), e.Wait.Seconds(), exemplar)
	m.vectors.succeeded.WithLabelValues(s.names.values()...) // or "none" would look like "not known"
	if e.Cause.Exhausted {
		m.vectors.hinted.WithLabelValues(s.names.values()...).Inc()
	}
}

// RetryRefused implements [retrybudget.Observer]. A refusal that ends a call is
// counted at its end.
func (m *Metrics) RetryRefused(e retrybudget.RefusalEvent) {
	if e.Observed {
		s := m.table.get(e.Call.Target, e.Call.Method)
		count(m.vectors.wouldRefuse.WithLabelValues(s.names.values()...), m.exemplar(e.Call.Context))
	}
}

// exemplar returns that of a call, nil for none.
func (m *Metrics) exemplar(ctx context.Context) prom.Labels {
	if m.settings.exemplar == nil {
		return nil
	}
	return m.settings.exemplar(ctx)
}

// count adds one to c, with an exemplar unless that is nil.
func count(c prom.Counter, exemplar prom.Labels) {
	if a, ok := c.(prom.ExemplarAdder); ok && exemplar != nil {
		defer ignoreExemplar()
		a.AddWithExemplar(1, exemplar)
		return
	}
	c.Inc()
}

// observe adds a value to o, with an exemplar unless that is nil.
func observe(o prom.Observer, value float64, exemplar prom.Labels) {
	if e, ok := o.(prom.ExemplarObserver); ok && exemplar != nil {
		defer ignoreExemplar()
		e.ObserveWithExemplar(value, exemplar)
		return
	}
	o.Observe(value)
}

// ignoreExemplar, deferred, keeps an exemplar that is not allowed from failing the
// call: client_golang panics about it, after it has counted.
func ignoreExemplar() { _ = recover() }
