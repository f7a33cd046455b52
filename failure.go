package retrybudget

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// failure is a failed attempt, understood.
type failure struct {
	err      error // without a mark of ours
	guidance guidance
	cause    Cause

	caller        Reason // why the caller's context has ended, NoReason while it lives
	closing       bool   // the error says that the connection was closed
	methodTimeout bool   // a service config's timeout ended it
	retryable     bool   // what classification says
	success       bool   // not OK, but a success for the budget
	answered      bool   // the server gave an answer that stands
	counts        bool   // RecordFailure is to hear of it
	outcome       Outcome
	waiting       bool // the call ended in the wait for the next attempt
}

// examine finds out what a failed attempt means, and says it in f and in the
// history. It changes nothing else of the call.
func (t *retries) examine(end *attemptEnd, f *failure) {
	final, err := unmark(end.err)
	st := statusOf(err)
	f.caller = t.callerDone()
	timeout := false
	if end.timeout > 0 && isTimeUp(st.Code()) {
		timeout = f.caller == NoReason
		st, err = t.timedOut(f.caller, end.timeout, st, err)
	}
	code, attempt := st.Code(), t.attempt
	if len(end.trailer) == 0 {
		f.guidance.retryInfo = retryInfoDelay(st)
	} else {
		f.guidance = readGuidance(end.trailer, st)
	}
	exhausted, veto := f.guidance.exhausted, f.guidance.veto
	f.err = err
	record := t.history.add()
	record.Attempt, record.Code, record.Err, record.Wait, record.Exhausted = attempt, code, err, t.wait, exhausted
	if t.set.observed {
		record.Duration = time.Duration(t.r.now() - t.started)
	}
	c := &f.cause
	c.Code, c.Attempt, c.AttemptTimeout, c.Exhausted, c.Veto = code, attempt, timeout, exhausted, veto
	byCaller := f.caller != NoReason && isTimeUp(st.Code())
	f.closing = isClosing(st)
	f.methodTimeout = !timeout && !byCaller && t.methodTimeout(st.Code())
	f.retryable = !final && !f.closing && !byCaller && !isHopeless(st) && t.classify(f, err)
	f.answered = !f.retryable && !isTimeUp(st.Code()) && !f.closing
	f.success = f.answered && t.countsAsSuccess(err)
	f.counts = f.retryable || f.guidance.veto
	switch {
	case f.success:
		f.outcome = Succeeded
	case f.retryable || timeout || byCaller || f.closing:
		f.outcome = Failed
	default:
		f.outcome = Answered
	}
	if t.native && t.set.cfg.observer != nil {
		t.warnOfNativeRetry()
	}
}

// timedOut returns what an attempt's own timeout makes of its status and error.
func (t *retries) timedOut(caller Reason, after time.Duration, st *status.Status, err error) (*status.Status, error) {
	switch {
	case caller == NoReason:
		// Its text is made when somebody asks.
		return status.New(codes.DeadlineExceeded, ""), &attemptTimeoutError{attempt: t.attempt, after: after}
	case caller == ReasonDeadline && st.Code() == codes.Canceled:
		// Both ended at this moment; the code is that of how ours was enforced.
		st = status.FromContextError(context.DeadlineExceeded)
		err = st.Err()
	}
	return st, err
}

// countsAsSuccess asks the user's success function.
func (t *retries) countsAsSuccess(err error) bool {
	ask := t.set.cfg.success
	return ask != nil && ask(t.info(), err)
}

// isTimeUp reports whether the code is what an ended context produces.
func isTimeUp(code codes.Code) bool {
	return code == codes.DeadlineExceeded || code == codes.Canceled
}

// classify asks the user's classifier, else lists and table.
func (t *retries) classify(f *failure, err error) bool {
	if ask := t.set.cfg.classifier; ask != nil {
		switch ask(t.info(), err) {
		case Retry:
			return true
		case NoRetry:
			return false
		}
	}
	if f.guidance.toldWhen() {
		return t.set.retriedWhenTold.has(f.cause.Code)
	}
	return t.set.retried.has(f.cause.Code)
}

// methodTimeout reports whether the attempt may have been ended by the timeout
// of a service config. grpc-go applies it to each attempt, where it is meant for
// the call, so the call ends with it.
func (t *retries) methodTimeout(code codes.Code) bool {
	return code == codes.DeadlineExceeded && t.cc != nil && t.cc.GetMethodConfig(t.method).Timeout != nil
}

// warnOfNativeRetry reports, once a method, that grpc-go retries it as well, so
// that attempts multiply. Retrier.DialOptions would have switched that off. With
// resolver policies the service config is expected to have one.
func (t *retries) warnOfNativeRetry() {
	if t.set.cfg.resolver || t.cc == nil || t.key.had(keyWarned) {
		return
	}
	if t.cc.GetMethodConfig(t.method).RetryPolicy == nil || t.key.events.Or(keyWarned)&keyWarned != 0 {
		return
	}
	t.set.cfg.observer.Warned(WarningEvent{
		Target: t.target(), Method: t.method,
		Text: "the service config has a retryPolicy for this method: attempts multiply; connect with Retrier.DialOptions, or with grpc.WithDisableRetry",
	})
}
