package otel

import (
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// CallEnded implements [retrybudget.Observer].
func (m *Metrics) CallEnded(e retrybudget.CallEvent) {
	ctx, s := e.Call.Context, m.table.get(e.Call.Target, e.Call.Method)
	m.callAttempts.Record(ctx, int64(e.Call.Attempt), s.record...)
	if e.Code == codes.OK && e.Call.Attempt == 1 {
		m.calls.Add(ctx, 1, s.ok...)
		m.attempts.Add(ctx, 1, s.ok...)
		return
	}
	m.calls.Add(ctx, 1, s.with(codeAttribute(e.Code)))
	m.attempts.Add(ctx, 1, s.with(codeAttribute(e.Last.Code)))
	if e.Last.Exhausted {
		m.hinted.Add(ctx, 1, s.add...)
	}
	if e.Code == codes.OK {
		m.succeeded.Add(ctx, 1, s.add...)
		return
	}
	m.refused.Add(ctx, 1, s.with(reasonAttribute(e.Reason)))
}

// RetrySent implements [retrybudget.Observer].
func (m *Metrics) RetrySent(e retrybudget.RetryEvent) {
	ctx, s := e.Call.Context, m.table.get(e.Call.Target, e.Call.Method)
	m.attempts.Add(ctx, 1, s.with(codeAttribute(e.Cause.Code)))
	m.retries.Add(ctx, 1, s.with(codeAttribute(e.Cause.Code), guidanceKey.Bool(e.FromGuidance)))
	m.succeeded.Add(ctx, 0, s.add...) // so that it is there to be compared with
	m.wait.Record(ctx, e.Wait.Seconds(), s.record...)
	if e.Cause.Exhausted {
		m.hinted.Add(ctx, 1, s.add...)
	}
}

// RetryRefused implements [retrybudget.Observer]. A refusal that ends a call is
// counted at its end.
func (m *Metrics) RetryRefused(e retrybudget.RefusalEvent) {
	if e.Observed {
		m.wouldRefuse.Add(e.Call.Context, 1, m.table.get(e.Call.Target, e.Call.Method).add...)
	}
}
