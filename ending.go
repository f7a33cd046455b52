package retrybudget

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/status"
)

// tellRetry tells the observer of the attempt that is to be sent.
func (t *retries) tellRetry() {
	t.set.cfg.observer.RetrySent(RetryEvent{
		Call: t.info(), Cause: *t.history.last(0), Wait: t.wait, FromGuidance: t.guided,
	})
}

// tellRefusal tells the observer that the last failure is not to be retried, or
// would not be in earnest.
func (t *retries) tellRefusal(reason Reason, observed bool) {
	t.set.cfg.observer.RetryRefused(RefusalEvent{
		Call: t.info(), Cause: *t.history.last(0), Reason: reason, Observed: observed,
	})
}

// tellFailure tells the observer that the call ended with err because no attempt
// follows f.
func (t *retries) tellFailure(f *failure, reason Reason, err error) {
	if f.retryable && reason != ReasonDisabled {
		t.tellRefusal(reason, false)
	}
	all := t.history.all()
	n := len(all) - 1
	t.tellEnd(reason, err, all[n], all[:n:n])
}

// tellSuccess tells the observer that the call ended with OK.
func (t *retries) tellSuccess() {
	last := AttemptRecord{Attempt: t.attempt, Wait: t.wait, Duration: time.Duration(t.r.now() - t.started)}
	t.tellEnd(NoReason, nil, last, slices.Clip(t.history.all()))
}

func (t *retries) tellEnd(reason Reason, err error, last AttemptRecord, earlier []AttemptRecord) {
	t.set.cfg.observer.CallEnded(CallEvent{
		Call: t.info(), Code: status.Code(err), Err: err, Reason: reason,
		Last: last, Earlier: earlier, Waited: t.waited, Duration: time.Duration(t.r.now() - t.began),
	})
}

// finalError returns what the caller gets for f and reason.
func (t *retries) finalError(f *failure, reason Reason) error {
	last := f.err
	switch reason {
	case ReasonDisabled, ReasonNotRetryable, ReasonCommitted:
		return last
	case ReasonCanceled, ReasonDeadline:
		return t.timeUpError(f, reason)
	case ReasonClosed:
		if f.closing && t.attempt == 1 {
			return last
		}
		last = t.lastOfServer(f)
	case ReasonPushback:
		if f.guidance.veto {
			return newError(reason, t.attempt, t.history.all(), last, "server pushback forbids a retry")
		}
		return newError(reason, t.attempt, t.history.all(), last, fmt.Sprintf("server pushback of %v is longer than the limit of %v",
			f.guidance.serverDelay(), t.set.cfg.maxServerDelay))
	}
	return newError(reason, t.attempt, t.history.all(), last, "")
}

// timeUpError returns what the caller gets when its context ended, or when the
// time that is left does not allow a retry.
func (t *retries) timeUpError(f *failure, reason Reason) error {
	switch {
	case f.waiting:
		return newContextError(t.ctx, reason, t.attempt, t.history.all(), f.err)
	case f.caller == NoReason:
		return newError(reason, t.attempt, t.history.all(), f.err, "")
	case t.attempt == 1 || f.answered:
		return f.err
	}
	return newContextError(t.ctx, reason, t.attempt, t.history.all(), t.lastOfServer(f))
}

// lastOfServer returns the last error that says why the call failed. A retry cut
// short only says that its context ended or its connection closed; the attempt
// before it says why it was made.
func (t *retries) lastOfServer(f *failure) error {
	if t.attempt > 1 && isTimeUp(f.cause.Code) {
		return t.history.last(1).Err
	}
	return f.err
}
