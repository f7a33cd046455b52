package retrybudget

import "time"

// question is everything that decides what follows a failed attempt.
type question struct {
	disabled bool   // retries are off for this call
	caller   Reason // why the caller's context has ended, NoReason while it lives
	closing  bool   // the error itself says that the connection was closed
	// methodTimeout: the timeout that a service config sets for each attempt
	// ended it.
	methodTimeout bool
	retryable     bool // what classification says
	committed     bool // a stream gave something to the application
	connClosed    bool // the connection was closed meanwhile
	veto          bool // the server forbids a retry

	serverDelay, maxServerDelay time.Duration
	attempt, maxAttempts        int

	hasDeadline bool
	left        time.Duration // until the call's deadline
	need        time.Duration // that an attempt takes, as far as known

	wait func() time.Duration // computes the wait; asked only if it comes to it
	take func() bool          // asks the budget; asked last, and only if all else agrees
}

// decide answers it: the reason to end the call, or NoReason and the wait before the
// next attempt. The first reason that holds wins. A wait that cannot lead to an
// attempt is never begun and costs no token.
func decide(q *question) (time.Duration, Reason) {
	switch {
	case q.disabled:
		return 0, ReasonDisabled
	case q.caller != NoReason:
		return 0, q.caller
	case q.closing:
		return 0, ReasonClosed
	case q.methodTimeout:
		return 0, ReasonDeadline
	case !q.retryable:
		return 0, ReasonNotRetryable
	case q.committed:
		return 0, ReasonCommitted
	case q.connClosed:
		return 0, ReasonClosed
	case q.veto || q.serverDelay > q.maxServerDelay:
		return 0, ReasonPushback
	case q.attempt >= q.maxAttempts:
		return 0, ReasonMaxAttempts
	}
	wait := max(q.wait(), 0)
	switch {
	case q.hasDeadline && wait >= q.left-q.need:
		return 0, ReasonDeadline
	case !q.take():
		return 0, ReasonBudget
	}
	return wait, NoReason
}
