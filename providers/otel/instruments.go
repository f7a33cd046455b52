package otel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are what a [Metrics] counts with.
type instruments struct {
	calls, attempts, retries, succeeded metric.Int64Counter
	refused, wouldRefuse, hinted        metric.Int64Counter
	callAttempts                        metric.Int64Histogram
	wait                                metric.Float64Histogram

	// Of what several Metrics of one provider observe, the SDK keeps the sum; of
	// gauges it would keep the last.
	tokens, capacity metric.Float64ObservableUpDownCounter
	replay           metric.Int64ObservableUpDownCounter
}

// The upper bounds of the buckets. The default backoff waits up to a second, a
// server may ask for 30.
var (
	callAttemptsBounds = []float64{1, 2, 3, 4, 5, 10}
	waitBounds         = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
)

func newInstruments(meter metric.Meter) (i instruments, err error) {
	var failed []error
	note := func(err error) { failed = append(failed, err) }
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		note(err)
		return c
	}
	level := func(name, text string) metric.Float64ObservableUpDownCounter {
		c, err := meter.Float64ObservableUpDownCounter(name, metric.WithUnit("{token}"), metric.WithDescription(text))
		note(err)
		return c
	}
	i.calls = counter("retrybudget.calls", "{call}",
		"Calls of the application that ended, by the code that it got.")
	i.attempts = counter("retrybudget.attempts", "{attempt}",
		"Attempts that ended, first ones and retries, by their code.")
	i.retries = counter("retrybudget.retries", "{retry}",
		"Retries sent, by the code of the failure before, and whether the server's guidance set the wait.")
	i.succeeded = counter("retrybudget.retries_succeeded", "{retry}",
		"Retries that ended OK.")
	i.refused = counter("retrybudget.refused", "{call}",
		"Failed calls, by the reason why no retry, or no other, followed.")
	i.wouldRefuse = counter("retrybudget.would_refuse", "{retry}",
		"Retries sent in Observe mode that the budget would have refused.")
	i.hinted = counter("retrybudget.hinted_failures", "{attempt}",
		"Failed attempts whose server said that its own retries were refused further down.")
	i.tokens = level("retrybudget.budget.tokens",
		"Tokens in the budget that retries could take now; one pays for an ordinary retry.")
	i.capacity = level("retrybudget.budget.capacity",
		"Most tokens that the budget can hold.")

	i.callAttempts, err = meter.Int64Histogram("retrybudget.call.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts of a call that ended."), metric.WithExplicitBucketBoundaries(callAttemptsBounds...))
	note(err)
	i.wait, err = meter.Float64Histogram("retrybudget.wait", metric.WithUnit("s"),
		metric.WithDescription("Time that a retry waited before it was sent."), metric.WithExplicitBucketBoundaries(waitBounds...))
	note(err)
	i.replay, err = meter.Int64ObservableUpDownCounter("retrybudget.replay.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes that streams hold to send them again on a retry."))
	note(err)
	return i, errors.Join(failed...)
}
