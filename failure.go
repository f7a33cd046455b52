package retrybudget

import (
	"time"

	"google.golang.org/grpc/codes"
)

// failure is a failed attempt, understood.
type failure struct {
	record   AttemptRecord
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

// examine finds out what a failed attempt means. It changes nothing.
func (c *call) examine(end attemptEnd) failure {
	err, final := unmark(end.err)
	st := statusOf(err)
	f := failure{caller: c.callerDone()}
	timeout := end.timeout > 0 && f.caller == NoReason && isTimeUp(st.Code())
	if timeout {
		err = &attemptTimeoutError{attempt: c.attempt, after: end.timeout}
		st = statusOf(err)
	}
	f.guidance = readGuidance(end.trailer, st)
	f.record = AttemptRecord{Attempt: c.attempt, Code: st.Code(), Err: err, Wait: c.wait, Exhausted: f.guidance.exhausted}
	if c.timed {
		f.record.Duration = time.Since(c.started)
	}
	f.cause = Cause{
		Code: st.Code(), Attempt: c.attempt, AttemptTimeout: timeout,
		Exhausted: f.guidance.exhausted, Veto: f.guidance.veto,
	}
	byCaller := f.caller != NoReason && isTimeUp(st.Code())
	f.closing = isClosing(st)
	f.methodTimeout = !timeout && !byCaller && c.methodTimeout(st.Code())
	f.retryable = !final && !f.closing && !byCaller && !isHopeless(st) && c.classify(&f, err)
	f.answered = !f.retryable && !isTimeUp(st.Code()) && !f.closing
	f.success = f.answered && c.cfg.success != nil && c.cfg.success(c.info(), err)
	f.counts = f.retryable || f.guidance.veto
	switch {
	case f.success:
		f.outcome = Succeeded
	case f.retryable || timeout || byCaller || f.closing:
		f.outcome = Failed
	default:
		f.outcome = Answered
	}
	c.warnOfNativeRetry()
	return f
}

// isTimeUp reports whether the code is what an ended context produces.
func isTimeUp(code codes.Code) bool {
	return code == codes.DeadlineExceeded || code == codes.Canceled
}

// classify asks the user's classifier, else lists and table.
func (c *call) classify(f *failure, err error) bool {
	if ask := c.cfg.classifier; ask != nil {
		switch ask(c.info(), err) {
		case Retry:
			return true
		case NoRetry:
			return false
		}
	}
	return c.set.retryable(failureClass{
		code: f.cause.Code, attemptTimeout: f.cause.AttemptTimeout, toldWhen: f.guidance.toldWhen(),
	})
}

// methodTimeout reports whether the attempt may have been ended by the timeout
// of a service config. grpc-go applies it to each attempt, where it is meant for
// the call, so the call ends with it.
func (c *call) methodTimeout(code codes.Code) bool {
	return code == codes.DeadlineExceeded && c.cc != nil && c.cc.GetMethodConfig(c.method).Timeout != nil
}

// warnOfNativeRetry reports, once a method, that grpc-go retries it as well, so
// that attempts multiply. Retrier.DialOptions would have switched that off.
func (c *call) warnOfNativeRetry() {
	if !c.native || c.cfg.observer == nil || c.cc == nil || c.key.warned.Load() {
		return
	}
	if c.cc.GetMethodConfig(c.method).RetryPolicy == nil || !c.key.warned.CompareAndSwap(false, true) {
		return
	}
	c.cfg.observer.Warned(WarningEvent{
		Target: c.target, Method: c.method,
		Text: "the service config has a retryPolicy for this method: attempts multiply; connect with Retrier.DialOptions, or with grpc.WithDisableRetry",
	})
}
