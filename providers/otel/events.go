package otel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrybudget/retrybudget"
)

// The names of the events.
const (
	retryEvent   = "retrybudget.retry"
	refusedEvent = "retrybudget.refused"
)

// SpanEvents is an observer that adds an event to the span in the call's context
// for each retry and for each refusal: that of [CallSpans], that of grpc-go's
// plugin, or the application's own if there is neither. It does nothing to spans
// that are not recorded. The zero value is ready to use.
//
// The event retrybudget.retry, when a retry is about to be sent, has its number
// as retrybudget.attempt, the wait before it as retrybudget.wait in seconds,
// whether the server's guidance set that as retrybudget.from_guidance, and the
// code that caused it as rpc.response.status_code. The event retrybudget.refused
// has the number and the code of the failed attempt, retrybudget.reason, and
// retrybudget.observed = true if the retry goes through all the same. No event
// has an error's text.
type SpanEvents struct{ retrybudget.NopObserver }

var _ retrybudget.Observer = SpanEvents{}

// RetrySent adds an event.
func (SpanEvents) RetrySent(e retrybudget.RetryEvent) {
	span := trace.SpanFromContext(e.Call.Context)
	if !span.IsRecording() {
		return
	}
	span.AddEvent(retryEvent, trace.WithAttributes(
		attemptKey.Int(e.Call.Attempt), codeAttribute(e.Cause.Code),
		waitKey.Float64(e.Wait.Seconds()), guidanceKey.Bool(e.FromGuidance),
	))
}

// RetryRefused adds an event.
func (SpanEvents) RetryRefused(e retrybudget.RefusalEvent) {
	span := trace.SpanFromContext(e.Call.Context)
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{attemptKey.Int(e.Call.Attempt), codeAttribute(e.Cause.Code), reasonAttribute(e.Reason)}
	if e.Observed {
		attributes = append(attributes, observedKey.Bool(true))
	}
	span.AddEvent(refusedEvent, trace.WithAttributes(attributes...))
}
