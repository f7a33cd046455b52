package retrybudget

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Observer is told what happens to calls, for metrics, traces and logs. Its
// methods run on the goroutine of the call, between attempts, so they must be
// quick; they must be safe for concurrent use and must not modify what they are
// given. Embed [NopObserver] to implement only some of them and to stay
// compatible when others are added.
//
// Always: attempts = calls + retries. Every failed call has exactly one
// [Reason], and the counts of all reasons add up to the failed calls.
type Observer interface {
	// RetrySent says that a retry is about to be sent: the wait for it is over
	// and nothing can stop it any more.
	RetrySent(RetryEvent)
	// RetryRefused says that a retryable failure is not followed by a retry, or
	// that the wait for one was cut short. In [Observe] mode it also reports
	// what the budget would have refused; see [RefusalEvent].
	RetryRefused(RefusalEvent)
	// CallEnded says that a call is over, once per call. Calls that an invalid
	// call option kept from starting are not reported.
	CallEnded(CallEvent)
	// Warned reports a setting that works against this library, once for each
	// method and kind.
	Warned(WarningEvent)
}

// RetryEvent is a retry about to be sent.
type RetryEvent struct {
	// Call is the call; its Attempt is the number of the attempt about to be
	// sent, so at least 2.
	Call CallInfo
	// Cause is the failed attempt that this one follows.
	Cause AttemptRecord
	// Wait is how long the call waited for it.
	Wait time.Duration
	// FromGuidance is true when the server's guidance set the wait.
	FromGuidance bool
}

// RefusalEvent is a retry that is not made.
type RefusalEvent struct {
	// Call is the call, with the number of the failed attempt.
	Call CallInfo
	// Cause is the failed attempt.
	Cause AttemptRecord
	// Reason says why there is no retry.
	Reason Reason
	// Observed is true in [Observe] mode: the budget would have refused, but
	// the retry goes through.
	Observed bool
}

// CallEvent is a call that ended.
type CallEvent struct {
	// Call is the call; its Attempt is the number of attempts sent.
	Call CallInfo
	// Code and Err are what the caller gets.
	Code codes.Code
	Err  error
	// Reason says why a failed call was not retried (again), [NoReason] after OK.
	Reason Reason
	// Last is the last attempt, Earlier what came before it: the first 15 and
	// the last 15 failed attempts. Retain a copy, not the slice.
	Last    AttemptRecord
	Earlier []AttemptRecord
	// Waited is the time spent waiting before retries, Duration that of the
	// whole call.
	Waited, Duration time.Duration
}

// WarningEvent is a setting that works against this library.
type WarningEvent struct {
	// Target and Method are where it was seen.
	Target, Method string
	// Text says what it is, in a sentence.
	Text string
}

// NopObserver ignores every event. The zero value is ready to use.
type NopObserver struct{}

var _ Observer = NopObserver{}

// RetrySent does nothing.
func (NopObserver) RetrySent(RetryEvent) {}

// RetryRefused does nothing.
func (NopObserver) RetryRefused(RefusalEvent) {}

// CallEnded does nothing.
func (NopObserver) CallEnded(CallEvent) {}

// Warned does nothing.
func (NopObserver) Warned(WarningEvent) {}

// observers calls two observers in turn.
type observers struct{ first, second Observer }

func (o observers) RetrySent(e RetryEvent) {
	o.first.RetrySent(e)
	o.second.RetrySent(e)
}

func (o observers) RetryRefused(e RefusalEvent) {
	o.first.RetryRefused(e)
	o.second.RetryRefused(e)
}

func (o observers) CallEnded(e CallEvent) {
	o.first.CallEnded(e)
	o.second.CallEnded(e)
}

func (o observers) Warned(e WarningEvent) {
	o.first.Warned(e)
	o.second.Warned(e)
}
