package retrybudget

import (
	"context"
	"time"

	"google.golang.org/grpc/connectivity"
)

// nextWait returns the wait before a retry after f: the server's pushback
// exactly, else the backoff, but not less than what RetryInfo asks for.
func (t *retries) nextWait(f *failure) time.Duration {
	if t.guided = f.guidance.pushback; t.guided {
		t.step, t.previous = 0, 0
		return f.guidance.delay
	}
	t.step++
	wait := max(0, t.backoff(f))
	t.previous = wait
	if asked := f.guidance.retryInfo; asked > 0 {
		if least := jitterUp(asked); least > wait {
			t.guided = true
			return least
		}
	}
	return wait
}

// backoff asks the backoff, ours without telling it what it does not look at.
func (t *retries) backoff(f *failure) time.Duration {
	switch b := t.set.backoff.(type) {
	case ConstantBackoff:
		return time.Duration(b)
	case ExponentialBackoff:
		return b.wait(t.step, t.previous)
	default:
		return b.Wait(BackoffInput{
			Retry: t.step, Previous: t.previous,
			Code: f.cause.Code, Err: f.err, Call: t.info(),
		})
	}
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
		t.pass(d)
	}
	reason := t.callerDone()
	switch {
	case reason != NoReason:
		return reason
	case d > 0 && t.connClosed():
		return ReasonClosed
	case t.disabled():
		return ReasonDisabled
	}
	return NoReason
}

// pass waits until d is over, the caller's context ends or the connection is closed.
func (t *retries) pass(d time.Duration) {
	ctx, cancel := context.WithTimeout(t.ctx, d)
	defer cancel()
	for t.cc != nil {
		state := t.cc.GetState()
		if state == connectivity.Shutdown || !t.cc.WaitForStateChange(ctx, state) {
			return
		}
	}
	<-ctx.Done()
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
	if t.hasDeadline && isPast(t.ctx.Deadline()) {
		return ReasonDeadline
	}
	return NoReason
}

// hasEnded reports whether a context has ended. Its deadline counts from the
// moment it is reached, whether or not its timer has fired.
func hasEnded(ctx context.Context) bool { return ctx.Err() != nil || isPast(ctx.Deadline()) }

func isPast(deadline time.Time, has bool) bool { return has && !deadline.After(time.Now()) }

func (t *retries) connClosed() bool {
	return t.cc != nil && t.cc.GetState() == connectivity.Shutdown
}
