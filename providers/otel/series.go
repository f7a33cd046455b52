package otel

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"google.golang.org/grpc/codes"
)

// series is what the measurements of one method of one server carry, made once,
// so that a call whose first attempt succeeds allocates nothing.
type series struct {
	attributes []attribute.KeyValue
	add        []metric.AddOption
	ok         []metric.AddOption // with the code OK
	record     []metric.RecordOption
	observe    metric.ObserveOption
}

func newSeries(attributes []attribute.KeyValue) *series {
	s := &series{attributes: slices.Clip(attributes)}
	plain := metric.WithAttributeSet(attribute.NewSet(attributes...))
	s.add = []metric.AddOption{plain}
	s.ok = []metric.AddOption{s.with(codeAttribute(codes.OK))}
	s.record = []metric.RecordOption{plain}
	s.observe = plain
	return s
}

// with returns the attributes of s and more.
func (s *series) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(s.attributes, more...)...))
}

type tableKey struct{ target, method string }

// table is a bounded map from (target, method) to series. Targets that stand for
// the same server share one.
type table struct {
	limit int
	other *series // of all that found no room, and of the Retrier's budget for such

	mu    sync.RWMutex
	keys  map[tableKey]*series
	known map[attribute.Distinct]*series
}

func newTable(limit int) *table {
	other := []attribute.KeyValue{semconv.RPCSystemNameGRPC, semconv.RPCMethod(otherMethod)}
	t := &table{limit: limit, other: newSeries(other), keys: make(map[tableKey]*series), known: make(map[attribute.Distinct]*series)}
	t.known[distinct(other)] = t.other
	return t
}

func distinct(attributes []attribute.KeyValue) attribute.Distinct {
	set := attribute.NewSet(attributes...)
	return set.Equivalent()
}

func (t *table) get(target, method string) *series {
	key := tableKey{target, method}
	t.mu.RLock()
	s, full := t.keys[key], len(t.keys) >= t.limit
	t.mu.RUnlock()
	switch {
	case s != nil:
		return s
	case full || len(method) > longestMethod || key == (tableKey{}):
		return t.other
	}
	return t.make(key)
}

func (t *table) make(key tableKey) *series {
	attributes := methodAttributes(key.target, key.method)
	name := distinct(attributes)
	fresh := newSeries(attributes)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s := t.keys[key]; {
	case s != nil:
		return s
	case len(t.keys) >= t.limit:
		return t.other
	}
	s := t.known[name]
	if s == nil {
		s = fresh
		t.known[name] = s
	}
	t.keys[key] = s
	return s
}
