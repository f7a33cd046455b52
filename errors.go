package retrybudget

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason says why a failed call was not retried (again). Every failed call has
// exactly one. Its String is the name used in metrics and logs.
type Reason uint8

// The reasons, in the order in which they are looked for.
const (
	// NoReason is the zero value: the call ended OK, or goes on.
	NoReason Reason = iota
	// ReasonDisabled: retries are off for this call ([Off], MaxAttempts 1,
	// [CallDisabled]).
	ReasonDisabled
	// ReasonCanceled: the caller cancelled.
	ReasonCanceled
	// ReasonDeadline: the call's deadline passed, or the wait and the time an
	// attempt needs did not fit before it.
	ReasonDeadline
	// ReasonClosed: the client connection was closed.
	ReasonClosed
	// ReasonNotRetryable: the error does not call for a retry.
	ReasonNotRetryable
	// ReasonCommitted: the stream had already given something to the
	// application, or more was sent than may be kept for replay.
	ReasonCommitted
	// ReasonPushback: the server forbade a retry or asked for a longer wait
	// than [WithMaxServerDelay] allows.
	ReasonPushback
	// ReasonMaxAttempts: all attempts are used up.
	ReasonMaxAttempts
	// ReasonBudget: the budget refused.
	ReasonBudget
)

// Reasons lists every reason a failed call can have, in the order in which they
// are looked for.
func Reasons() []Reason {
	return []Reason{
		ReasonDisabled, ReasonCanceled, ReasonDeadline, ReasonClosed, ReasonNotRetryable,
		ReasonCommitted, ReasonPushback, ReasonMaxAttempts, ReasonBudget,
	}
}

// String returns the reason's name: disabled, canceled, deadline, closed,
// not_retryable, committed, pushback, max_attempts or budget; empty for
// [NoReason].
func (r Reason) String() string {
	switch r {
	case NoReason:
		return ""
	case ReasonDisabled:
		return "disabled"
	case ReasonCanceled:
		return "canceled"
	case ReasonDeadline:
		return "deadline"
	case ReasonClosed:
		return "closed"
	case ReasonNotRetryable:
		return "not_retryable"
	case ReasonCommitted:
		return "committed"
	case ReasonPushback:
		return "pushback"
	case ReasonMaxAttempts:
		return "max_attempts"
	case ReasonBudget:
		return "budget"
	default:
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
}

// What errors.Is finds in an [Error], beside the server's last error.
var (
	// ErrBudgetExhausted marks [ReasonBudget].
	ErrBudgetExhausted = errors.New("retry budget exhausted")
	// ErrAttemptsExhausted marks [ReasonMaxAttempts].
	ErrAttemptsExhausted = errors.New("attempts exhausted")
	// ErrPushback marks [ReasonPushback].
	ErrPushback = errors.New("server pushback")
	// ErrDeadline marks [ReasonDeadline].
	ErrDeadline = errors.New("no time left for a retry")
	// ErrClosed marks [ReasonClosed].
	ErrClosed = errors.New("the client connection is closing")
)

// AttemptRecord is one attempt of a call.
type AttemptRecord struct {
	// Attempt is its number, counted from 1.
	Attempt int
	// Code is its status code.
	Code codes.Code
	// Err is its error, nil for OK.
	Err error
	// Wait is how long the call waited before it, 0 for the first.
	Wait time.Duration
	// Duration is how long it took. It is measured for an [Observer], and 0
	// without one.
	Duration time.Duration
	// Exhausted is true when its answer carried the hint that the server's own
	// retries were refused further down.
	Exhausted bool
}

// Error is the error of a call that this library ended: a retry was refused, or
// attempts, time or connection ran out. Errors that are not retryable, and those
// of calls with retries off, are returned as they are instead.
//
// status.FromError and status.Code see the last server status unchanged: code,
// message and details. Only when the caller's context ended, during a wait or in
// attempt 2 or later, is the code CANCELLED or DEADLINE_EXCEEDED, with the last
// server error in the text. errors.Is finds the reason's sentinel
// ([ErrBudgetExhausted], …), the context's error, and the last error.
type Error struct {
	// Reason says why no (further) retry followed.
	Reason Reason
	// Attempts is how many attempts were sent.
	Attempts int
	// History is the first 15 and the last 15 failed attempts.
	History []AttemptRecord

	what   string         // what happened, for the text
	status *status.Status // what gRPC sees
	causes []error        // for errors.Is: sentinel, context error, last error
	last   error          // the last server error
}

// Error returns the reason, the number of attempts and the last error.
func (e *Error) Error() string {
	plural := "s"
	if e.Attempts == 1 {
		plural = ""
	}
	return fmt.Sprintf("retrybudget: %s after %d attempt%s: %v", e.what, e.Attempts, plural, e.last)
}

// GRPCStatus returns the status that gRPC code sees; see [Error].
func (e *Error) GRPCStatus() *status.Status { return e.status }

// Unwrap returns the reason's sentinel, the context's error if that ended the
// call, and the last error.
func (e *Error) Unwrap() []error { return e.causes }

// newError returns the error of a call that ended for reason with failure last.
// what replaces the sentinel's text if it is not empty.
func newError(reason Reason, attempts int, history []AttemptRecord, last error, what string) *Error {
	sentinel := sentinelOf(reason)
	if what == "" {
		what = sentinel.Error()
	}
	return &Error{
		Reason: reason, Attempts: attempts, History: history,
		what: what, status: statusOf(last), last: last,
		causes: []error{sentinel, last},
	}
}

func sentinelOf(reason Reason) error {
	switch reason {
	case ReasonBudget:
		return ErrBudgetExhausted
	case ReasonMaxAttempts:
		return ErrAttemptsExhausted
	case ReasonPushback:
		return ErrPushback
	case ReasonClosed:
		return ErrClosed
	default:
		return ErrDeadline
	}
}

// newContextError returns the error of a call whose context ended after last.
func newContextError(ctx context.Context, reason Reason, attempts int, history []AttemptRecord, last error) *Error {
	cause, code := context.Canceled, codes.Canceled
	causes := []error{context.Canceled, last}
	if reason == ReasonDeadline {
		cause, code = context.DeadlineExceeded, codes.DeadlineExceeded
		causes = []error{ErrDeadline, context.DeadlineExceeded, last}
	}
	if given := context.Cause(ctx); given != nil && !errors.Is(given, cause) {
		causes = append(causes, given)
	}
	e := &Error{
		Reason: reason, Attempts: attempts, History: history,
		what: cause.Error(), last: last, causes: causes,
	}
	e.status = status.New(code, e.Error())
	return e
}

// finalError is what [Final] returns.
type finalError struct{ err error }

// Final marks an error that must not be retried, whatever its code: an
// interceptor further in (circuit breaker, limiter) decided so. The mark is
// taken off before the caller sees the error. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// unmark reports whether err carries a [Final] mark anywhere, and returns it
// without the one on its outside.
func unmark(err error) (bool, error) {
	if f, ok := err.(*finalError); ok { //nolint:errorlint // only the outermost can be taken off
		return true, f.err
	}
	if reflect.TypeOf(err) == statusErrorType { // the usual one wraps nothing
		return false, err
	}
	_, ok := errors.AsType[*finalError](err)
	return ok, err
}

var statusErrorType = reflect.TypeOf(status.Error(codes.Unknown, ""))

// panicError is the error of a call in whose replay an interceptor or a codec
// panicked.
type panicError struct {
	value any // nil when the goroutine was ended without a panic
	stack []byte
}

// Error returns value and stack.
func (e *panicError) Error() string { return e.text() + "\n" + string(e.stack) }

func (e *panicError) text() string {
	return fmt.Sprintf("retrybudget: panic while a stream was sent again: %v", e.value)
}

// GRPCStatus returns the status without the stack, which is not for others.
func (e *panicError) GRPCStatus() *status.Status { return status.New(codes.Internal, e.text()) }

// attemptTimeoutError is the error of an attempt that its own timeout ended.
type attemptTimeoutError struct {
	attempt int
	after   time.Duration
}

func (e *attemptTimeoutError) Error() string {
	return "rpc error: code = DeadlineExceeded desc = " + e.text()
}

func (e *attemptTimeoutError) text() string {
	return fmt.Sprintf("retrybudget: attempt %d timed out after %v", e.attempt, e.after)
}

func (e *attemptTimeoutError) GRPCStatus() *status.Status {
	return status.New(codes.DeadlineExceeded, e.text())
}

func (e *attemptTimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// statusOf returns the gRPC status of an error; a bare context error, which an
// interceptor further in may return, counts as its code.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}
