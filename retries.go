package retrybudget

import (
	"time"

	"google.golang.org/grpc/metadata"
)

// retries is what became of a call since its first attempt failed. Unary calls
// and streams drive it the same way: after each failed attempt they call next,
// which decides and waits, and after an attempt that ended OK, succeeded.
type retries struct {
	call
	began int64 // when the call began, by Retrier.now, with an observer
	// hasDeadline: ctx has one. Asking a context again and again costs as much as
	// deciding.
	hasDeadline bool

	granted Budget // granted the attempt under way and was not told its end
	grant   Cause  // what it was asked with

	step     int           // place in the backoff; a pushback resets it
	previous time.Duration // the last backoff wait, likewise
	guided   bool          // the server set the last wait
	wait     time.Duration // before the attempt under way
	waited   time.Duration // before all attempts

	history history
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
func (t *retries) next(end *attemptEnd) (bool, error) {
	if t.attempt == 1 {
		t.began = t.started
		_, t.hasDeadline = t.ctx.Deadline()
		if t.set.resolver {
			t.takeResolverPolicy()
		}
	}
	var f failure
	t.examine(end, &f)
	t.settle(f.outcome)
	t.renewKey()
	disabled := t.disabled()
	if f.counts && !disabled {
		t.key.budget.RecordFailure(f.cause)
	}
	// A caller that has seen enough of a stream cancels it; that is no failure.
	enough := end.delivered && f.caller == ReasonCanceled
	if t.attempt == 1 && (f.success || enough) {
		t.key.budget.RecordSuccess()
	}
	var q question // a literal would be made elsewhere and copied
	q.disabled, q.caller, q.closing = disabled, f.caller, f.closing
	q.methodTimeout, q.retryable = f.methodTimeout, f.retryable
	q.committed, q.connClosed = end.committed, t.connClosed()
	q.veto, q.serverDelay, q.maxServerDelay = f.guidance.veto, f.guidance.serverDelay(), t.set.cfg.maxServerDelay
	q.attempt, q.maxAttempts = t.attempt, t.set.maxAttempts
	q.wait = func() time.Duration { return t.nextWait(&f) }
	q.take = func() bool { return t.take(&f) }
	if t.hasDeadline {
		deadline, _ := t.ctx.Deadline()
		q.hasDeadline, q.left, q.need = true, time.Until(deadline), t.timeNeeded()
	}
	wait, reason := decide(&q)
	if reason == NoReason {
		if reason = t.sleep(wait); reason == NoReason {
			t.startNext(wait)
			return true, nil
		}
		t.settle(Abandoned)
		f.waiting = true
	}
	if reason == ReasonBudget || f.guidance.exhausted || f.guidance.veto {
		noteExhausted(t.ctx)
	}
	err := f.err
	if !end.committed {
		err = t.finalError(&f, reason)
	}
	if t.set.observed {
		t.tellFailure(&f, reason, err)
	}
	return false, err
}

// renewKey sees to it that the call draws on the one budget that its name has now,
// and reports whether that is another than before.
func (t *retries) renewKey() bool {
	before, cfg := t.key, t.r.config.Load()
	if before.had(keyDropped) || cfg.keys != t.set.cfg.keys {
		t.key = t.r.keyOf(cfg, t.target(), t.method)
	}
	t.key.takeOver()
	return t.key != before
}

// take asks the budget for a retry after f.
func (t *retries) take(f *failure) bool {
	granted := t.key.budget.TryTake(f.cause)
	if !granted && t.renewKey() {
		granted = t.key.budget.TryTake(f.cause)
	}
	if granted {
		t.granted, t.grant = t.key.budget, f.cause
		return true
	}
	if t.set.cfg.mode != Observe {
		return false
	}
	if t.set.observed {
		t.tellRefusal(ReasonBudget, true)
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

// startNext starts the next attempt, after a wait.
func (t *retries) startNext(wait time.Duration) {
	t.attempt++
	t.wait = wait
	t.waited += wait
	if t.set.observed {
		t.tellRetry()
	}
}

// answered says that the attempt under way gave what the call is for: a unary
// reply, or the first message of a stream.
func (t *retries) answered() {
	t.settle(Succeeded)
	if t.timed {
		now := t.r.now()
		t.key.latency.record(time.Duration(now-t.started), now)
	}
}

// succeeded ends the call with OK.
func (t *retries) succeeded() {
	t.settle(Succeeded)
	if t.attempt == 1 {
		t.key.budget.RecordSuccess()
		t.began = t.started
	}
	if t.set.observed {
		t.tellSuccess()
	}
}
