package streammodel_test

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// An outcome is what an attempt may have ended with, as the client sees it.
type outcome struct {
	code      codes.Code
	message   string
	retryable bool
	veto      bool          // the server forbids a retry
	wait      time.Duration // before a retry
}

// timesOut reports whether an attempt has a timeout of its own: only if that
// could be retried.
func (w *world) timesOut(a *attempt) bool {
	return w.plan.attemptTimeout > 0 && w.plan.level == retrybudget.Idempotent && a.number < w.plan.maxAttempts
}

// endings returns what a may have ended with for a client that decided at the
// time until. An attempt that answers, but whose answer nobody asked for before
// its timeout, may count as either, and as timed out with the answer's guidance.
func (w *world) endings(a *attempt, until time.Duration) []outcome {
	var all []outcome
	if a.finished {
		veto, wait := w.guidance(a.script)
		e := outcome{code: w.code(a), message: scriptedMessage(a.number), veto: veto, wait: wait}
		e.retryable = w.retryable(e.code, a.script.pushback != "" && !veto)
		if e.code == codes.Internal {
			e.message = "cardinality violation: received no response message from non-server-streaming RPC"
		}
		all = append(all, e)
	}
	if w.timesOut(a) && until >= a.start+w.plan.attemptTimeout && !w.isCommitted(a) {
		e := outcome{
			code:    codes.DeadlineExceeded,
			message: fmt.Sprintf("retrybudget: attempt %d timed out after %v", a.number, w.plan.attemptTimeout),
			wait:    w.plan.backoff, retryable: true,
		}
		all = append(all, e)
		if a.finished {
			e.veto, e.wait = w.guidance(a.script)
			all = append(all, e)
		}
	}
	return all
}

// guidance is what a script's pushback means.
func (w *world) guidance(s script) (veto bool, wait time.Duration) {
	if s.pushback == "" || s.hang {
		return false, w.plan.backoff
	}
	ms, err := strconv.Atoi(s.pushback)
	return err != nil || ms < 0, time.Duration(ms) * time.Millisecond
}

// retryable is the library's table. toldWhen says that the server told when to
// come back.
func (w *world) retryable(code codes.Code, toldWhen bool) bool {
	switch code {
	case codes.ResourceExhausted:
		return toldWhen
	case codes.Unavailable:
		return w.plan.level != retrybudget.NonIdempotent
	case codes.Aborted, codes.DeadlineExceeded:
		return w.plan.level == retrybudget.Idempotent
	default:
		return false
	}
}

// isCommitted reports whether the application got something of a.
func (w *world) isCommitted(a *attempt) bool {
	return a.number == len(w.attempts) && (len(w.app.got) > 0 || w.app.header != nil)
}

// mayBeCommitted reports whether a may be committed, for one of these reasons:
// the application got something of it, what was sent may not have fitted into
// the limit, or the application sent on a broken stream that had something for
// it to receive. What a message costs beside its bytes is not laid down, but it
// is less than 200.
func (w *world) mayBeCommitted(a *attempt) bool {
	cost := 0
	for _, m := range w.app.sends {
		cost += len(m) + 200
	}
	pending := w.app.sendErr != nil && (a.header || len(a.sent) > 0)
	return w.isCommitted(a) || w.app.late || cost > w.plan.limit || pending
}

// justified reports whether reason is why the call ended after attempt a, which
// ended with e, when no context of the caller's had ended.
func (w *world) justified(reason retrybudget.Reason, a *attempt, e outcome) bool {
	switch reason {
	case retrybudget.NoReason:
		return e.code == codes.OK
	case retrybudget.ReasonDisabled:
		return w.plan.maxAttempts == 1 && e.code != codes.OK
	case retrybudget.ReasonNotRetryable:
		return e.code != codes.OK && !e.retryable
	case retrybudget.ReasonCommitted:
		return e.retryable && w.mayBeCommitted(a)
	}
	if w.isCommitted(a) || !e.retryable {
		return false
	}
	switch reason {
	case retrybudget.ReasonPushback:
		return e.veto
	case retrybudget.ReasonMaxAttempts:
		return !e.veto && a.number == w.plan.maxAttempts
	case retrybudget.ReasonDeadline:
		return !e.veto && e.wait >= w.plan.deadline-w.endedAt
	case retrybudget.ReasonBudget:
		return !e.veto && w.plan.tokens < a.number
	default:
		return false
	}
}
