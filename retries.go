package retrybudget

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// retries is what became of a call since its first attempt failed. Unary calls
// and streams drive it the same way: after each failed attempt they call next,
// which decides and waits, and after an attempt that ended OK, succeeded.
type retries struct {
	call            // a copy, so that calls without a failure stay off the heap
	began time.Time // of the call, with an observer

	granted Budget // granted the attempt under way and was not told its end
	grant   Cause  // what it was asked with

	step     int           // place in the backoff; a pushback resets it
	previous time.Duration // the last backoff wait, likewise
	guided   bool          // the server set the last wait
	wait     time.Duration // before the attempt under way
	waited   time.Duration // before all attempts

	records []AttemptRecord // the first and the last attempts
}

// attemptEnd is how an attempt failed.
type attemptEnd struct {
	err     error
	trailer metadata.MD
	// timeout is the attempt's own timeout if that ended it, else 0.
	timeout   time.Duration
	committed bool // a stream can no longer be retried
	delivered bool // it gave the application a message
}

// next decides what follows the failed attempt under way. It returns true when
// another attempt is to be sent now, after having waited for it; otherwise the
// error that the caller gets.
func (t *retries) next(end attemptEnd) (bool, error) {
	if t.attempt == 1 {
		t.began = t.started
	}
	f := t.examine(end)
	t.record(f.record)
	t.settle(f.outcome)
	if t.key.dropped.Load() { // or the name would draw on two budgets
		t.key = t.r.keyOf(t.set.cfg, t.target(), t.method)
	}
	if f.counts && !t.disabled() {
		t.key.budget.RecordFailure(f.cause)
	}
	// A caller that has seen enough of a stream cancels it; that is no failure.
	enough := end.delivered && f.caller == ReasonCanceled
	if t.attempt == 1 && (f.success || enough) {
		t.key.budget.RecordSuccess()
	}
	q := question{
		disabled: t.disabled(), caller: f.caller, closing: f.closing,
		methodTimeout: f.methodTimeout, retryable: f.retryable,
		committed: end.committed, connClosed: t.connClosed(),
		veto: f.guidance.veto, serverDelay: f.guidance.serverDelay(), maxServerDelay: t.set.cfg.maxServerDelay,
		attempt: t.attempt, maxAttempts: t.set.maxAttempts,
		wait: func() time.Duration { return t.nextWait(&f) },
		take: func() bool { return t.take(&f) },
	}
	if deadline, has := t.ctx.Deadline(); has {
		q.hasDeadline, q.left, q.need = true, time.Until(deadline), t.timeNeeded()
	}
	wait, reason := decide(q)
	if reason == NoReason {
		if reason = t.sleep(wait); reason == NoReason {
			t.startNext(&f, wait)
			return true, nil
		}
		t.settle(Abandoned)
		f.waiting = true
	}
	if reason == ReasonBudget || f.guidance.exhausted {
		noteExhausted(t.ctx)
	}
	err := f.record.Err
	if !end.committed {
		err = t.finalError(&f, reason)
	}
	t.report(&f, reason, err)
	return false, err
}

// take asks the budget for a retry after f.
func (t *retries) take(f *failure) bool {
	if t.key.budget.TryTake(f.cause) {
		t.granted, t.grant = t.key.budget, f.cause
		return true
	}
	if t.set.cfg.mode != Observe {
		return false
	}
	if o := t.set.cfg.observer; o != nil {
		o.RetryRefused(RefusalEvent{Call: t.info(), Cause: f.record, Reason: ReasonBudget, Observed: true})
	}
	return true
}

// settle tells the budget how the attempt under way ended, if it granted it and
// has not been told.
func (t *retries) settle(o Outcome) {
	if b := t.granted; b != nil {
		t.granted = nil
		b.Settle(t.grant, o)
	}
}

// nextWait returns the wait before a retry after f: the server's pushback
// exactly, else the backoff, but not less than what RetryInfo asks for.
func (t *retries) nextWait(f *failure) time.Duration {
	if t.guided = f.guidance.pushback; t.guided {
		t.step, t.previous = 0, 0
		return f.guidance.delay
	}
	t.step++
	wait := max(0, t.set.backoff.Wait(BackoffInput{
		Retry: t.step, Previous: t.previous,
		Code: f.record.Code, Err: f.record.Err, Call: t.info(),
	}))
	t.previous = wait
	if asked := f.guidance.retryInfo; asked > 0 {
		if least := jitterUp(asked); least > wait {
			t.guided = true
			return least
		}
	}
	return wait
}

// timeNeeded estimates how long an attempt takes. A common key mixes methods, so
// it knows nothing.
func (t *retries) timeNeeded() time.Duration {
	if t.key.common {
		return 0
	}
	need := t.key.latency.estimate(t.r.now())
	if limit := t.set.perAttemptTimeout; limit > 0 {
		need = min(need, limit)
	}
	return need
}

// sleep waits for d, and returns early with the reason when the caller's context
// ends or the connection is closed. Both are looked at even when d is 0, and so
// is the mode, which may have been switched off meanwhile.
func (t *retries) sleep(d time.Duration) Reason {
	if d > 0 {
		ctx, cancel := context.WithTimeout(t.ctx, d)
		defer cancel()
		for t.cc != nil {
			state := t.cc.GetState()
			if state == connectivity.Shutdown || !t.cc.WaitForStateChange(ctx, state) {
				break
			}
		}
		if t.cc == nil {
			<-ctx.Done()
		}
	}
	if reason := t.callerDone(); reason != NoReason {
		return reason
	}
	if t.connClosed() {
		return ReasonClosed
	}
	if t.disabled() {
		return ReasonDisabled
	}
	return NoReason
}

// callerDone returns why the caller's context has ended, or NoReason. The
// deadline itself counts: the context's timer may fire later than the server's.
func (t *retries) callerDone() Reason {
	switch t.ctx.Err() {
	case nil:
	case context.DeadlineExceeded:
		return ReasonDeadline
	default:
		return ReasonCanceled
	}
	if hasEnded(t.ctx) {
		return ReasonDeadline
	}
	return NoReason
}

// hasEnded reports whether a context has ended. Its deadline counts from the
// moment it is reached, whether or not its timer has fired.
func hasEnded(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !deadline.After(time.Now())
}

func (t *retries) connClosed() bool {
	return t.cc != nil && t.cc.GetState() == connectivity.Shutdown
}

// startNext starts the next attempt, after f and a wait.
func (t *retries) startNext(f *failure, wait time.Duration) {
	t.startAttempt(t.key.latency.sample())
	t.wait = wait
	t.waited += wait
	if o := t.set.cfg.observer; o != nil {
		o.RetrySent(RetryEvent{Call: t.info(), Cause: f.record, Wait: wait, FromGuidance: t.guided})
	}
}

// answered says that the attempt under way gave what the call is for: a unary
// reply, or the first message of a stream.
func (t *retries) answered() {
	t.settle(Succeeded)
	if t.timed {
		t.key.latency.record(time.Since(t.started), t.r.now())
	}
}

// succeeded ends the call with OK.
func (t *retries) succeeded() {
	t.settle(Succeeded)
	if t.attempt == 1 {
		t.key.budget.RecordSuccess()
		t.began = t.started
	}
	if t.set.cfg.observer != nil {
		last := AttemptRecord{Attempt: t.attempt, Wait: t.wait, Duration: time.Since(t.started)}
		t.ended(NoReason, nil, last, t.records)
	}
}

// record remembers an attempt: the first and the last of them.
func (t *retries) record(a AttemptRecord) {
	switch {
	case t.records == nil:
		t.records = make([]AttemptRecord, 0, defaultMaxAttempts-1)
	case len(t.records) == 2*keptRecords:
		copy(t.records[keptRecords:], t.records[keptRecords+1:])
		t.records = t.records[:2*keptRecords-1]
	}
	t.records = append(t.records, a)
}

// report tells the observer that the call ended with err because no attempt
// follows f.
func (t *retries) report(f *failure, reason Reason, err error) {
	o := t.set.cfg.observer
	if o == nil {
		return
	}
	if f.retryable && reason != ReasonDisabled {
		o.RetryRefused(RefusalEvent{Call: t.info(), Cause: f.record, Reason: reason})
	}
	t.ended(reason, err, f.record, t.records[:len(t.records)-1])
}

func (t *retries) ended(reason Reason, err error, last AttemptRecord, earlier []AttemptRecord) {
	t.set.cfg.observer.CallEnded(CallEvent{
		Call: t.info(), Code: status.Code(err), Err: err, Reason: reason,
		Last: last, Earlier: earlier, Waited: t.waited, Duration: time.Since(t.began),
	})
}

// finalError returns what the caller gets for f and reason.
func (t *retries) finalError(f *failure, reason Reason) error {
	last := f.record.Err
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
			return newError(reason, t.attempt, t.records, last, "server pushback forbids a retry")
		}
		return newError(reason, t.attempt, t.records, last, fmt.Sprintf("server pushback of %v is longer than the limit of %v",
			f.guidance.serverDelay(), t.set.cfg.maxServerDelay))
	}
	return newError(reason, t.attempt, t.records, last, "")
}

// timeUpError returns what the caller gets when its context ended, or when the
// time that is left does not allow a retry.
func (t *retries) timeUpError(f *failure, reason Reason) error {
	switch {
	case f.waiting:
		return newContextError(t.ctx, reason, t.attempt, t.records, f.record.Err)
	case f.caller == NoReason:
		return newError(reason, t.attempt, t.records, f.record.Err, "")
	case t.attempt == 1 || f.answered:
		return f.record.Err
	}
	return newContextError(t.ctx, reason, t.attempt, t.records, t.lastOfServer(f))
}

// lastOfServer returns the last error that says why the call failed. A retry cut
// short only says that its context ended or its connection closed; the attempt
// before it says why it was made.
func (t *retries) lastOfServer(f *failure) error {
	if t.attempt > 1 && isTimeUp(f.record.Code) {
		return t.records[len(t.records)-2].Err
	}
	return f.record.Err
}
