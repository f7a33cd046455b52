package streammodel_test

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

// judge compares what happened with the model, after the run.
func (w *world) judge() {
	for _, a := range w.attempts {
		w.judgeReceived(a)
		w.judgeCut(a)
	}
	w.judgeDelivered()
	if len(w.ended) != 1 || len(w.app.finished) != 1 || len(w.attempts) == 0 {
		w.fail("the call ended %d times, OnFinish ran %d times, there were %d attempts", len(w.ended), len(w.app.finished), len(w.attempts))
		return
	}
	w.judgeAttempts()
	w.judgeEnd()
	w.judgeBudget()
}

// judgeReceived: each attempt got a prefix of what was sent, in order, and saw
// the half-close only after all of it.
func (w *world) judgeReceived(a *attempt) {
	n := len(a.received)
	if n > len(w.app.sends) || !slices.Equal(a.received, w.app.sends[:n]) {
		w.fail("attempt %d received what was not sent: %d messages", a.number, n)
	}
	if a.halfClose && (!w.halfClosed() || n != len(w.app.sends)) {
		w.fail("attempt %d saw a half-close after %d of %d messages", a.number, n, len(w.app.sends))
	}
}

// judgeCut: attempts end by themselves, by their timeout, or with the caller's
// context.
func (w *world) judgeCut(a *attempt) {
	switch {
	case !a.over:
		w.fail("attempt %d never ended", a.number)
	case a.finished:
	case w.callerEnded() && a.end >= w.app.gone:
	case w.timesOut(a) && a.end == a.start+w.plan.attemptTimeout && !w.isCommitted(a):
	default:
		w.fail("attempt %d was cut at %v for no reason", a.number, a.end)
	}
}

// judgeDelivered: what the application got is a prefix of what the last attempt
// sent, so no message comes twice.
func (w *world) judgeDelivered() {
	if len(w.attempts) == 0 {
		return
	}
	last := w.attempts[len(w.attempts)-1]
	if n := len(w.app.got); n > len(last.sent) || !slices.Equal(w.app.got, last.sent[:n]) {
		w.fail("the application got what attempt %d did not send: %q", last.number, shorten(w.app.got))
	}
	if from := attemptOf(w.app.header); from != "" && from != strconv.Itoa(last.number) {
		w.fail("the application got headers of attempt %s", from)
	}
}

func shorten(messages []string) []string {
	var all []string
	for _, m := range messages {
		name, _, _ := strings.Cut(m, ":")
		all = append(all, name)
	}
	return all
}

// callerEnded reports whether the caller's context ended before the call did.
func (w *world) callerEnded() bool {
	return w.app.isGone && w.app.gone <= w.endedAt || w.endedAt >= w.plan.deadline
}

// judgeAttempts: there are no more than allowed, and each but the last failed in
// a way that is retried.
func (w *world) judgeAttempts() {
	n := w.ended[0].Call.Attempt
	if n > w.plan.maxAttempts || n != len(w.retries)+1 {
		w.fail("%d attempts with %d retries, of at most %d", n, len(w.retries), w.plan.maxAttempts)
	}
	// An attempt that the caller ends at once may not reach the server.
	if n != len(w.attempts) && (n != len(w.attempts)+1 || !w.callerEnded()) {
		w.fail("%d attempts, of which the server saw %d", n, len(w.attempts))
	}
	for i, e := range w.retries[:min(len(w.retries), len(w.attempts))] {
		a, until := w.attempts[i], w.endedAt
		if i+1 < len(w.attempts) {
			until = w.attempts[i+1].start
		}
		ok := slices.ContainsFunc(w.endings(a, until), func(end outcome) bool {
			return end.retryable && !end.veto && end.code == e.Cause.Code && end.wait == e.Wait
		})
		if !ok {
			w.fail("attempt %d ended with %v and was retried after %v", a.number, e.Cause.Err, e.Wait)
		}
	}
}

// judgeEnd: the call ended as the last attempt did, for a reason that holds, and
// everybody was told the same.
func (w *world) judgeEnd() {
	e, last := w.ended[0], w.attempts[len(w.attempts)-1]
	if w.app.finished[0] != e.Err {
		w.fail("OnFinish got %v, the observer %v", w.app.finished[0], e.Err)
	}
	want := e.Err
	if want == nil {
		want = io.EOF
	}
	if w.app.final != nil && w.app.final != want {
		w.fail("RecvMsg ended with %v, the call with %v", w.app.final, e.Err)
	}
	// The code generated for a stream that sends once needs nil, as grpc-go gives.
	if err := w.app.sendErr; err != nil && (err != io.EOF || !w.plan.clientStreams) {
		w.fail("SendMsg returned %v", err)
	}
	if w.plan.drain && w.app.final == nil {
		w.fail("the application did not learn how the call ended")
	}
	endings := w.endings(last, w.endedAt)
	i := slices.IndexFunc(endings, func(end outcome) bool {
		return last.number == e.Call.Attempt && w.justified(e.Reason, last, end) && matches(e, end)
	})
	switch {
	case i >= 0:
		w.judgeAnswer(endings[i])
	case w.callerEnded() && w.callerExplains(last):
	default:
		w.fail("the call ended with %v, reason %q, after attempt %d; it could have ended with %+v", e.Err, e.Reason, last.number, endings)
	}
}

// matches reports whether an event has the code and the message of an ending.
func matches(e retrybudget.CallEvent, end outcome) bool {
	return e.Code == end.code && (e.Err == nil || status.Convert(e.Err).Message() == end.message)
}

// judgeAnswer: an application that received to the end got all of what came with
// the answer.
func (w *world) judgeAnswer(end outcome) {
	last := w.attempts[len(w.attempts)-1]
	if !w.plan.drain || end.message != scriptedMessage(last.number) {
		return
	}
	want := len(last.sent)
	if !w.plan.serverStreams && end.code != codes.OK {
		want = 0
	}
	if len(w.app.got) != want {
		w.fail("the application got %d of %d messages", len(w.app.got), want)
	}
	if number := strconv.Itoa(last.number); attemptOf(w.app.trailer) != number || attemptOf(w.app.targets.trailer) != number {
		w.fail("Trailer gave %v, grpc.Trailer %v, after attempt %d", w.app.trailer, w.app.targets.trailer, last.number)
	}
	if from := attemptOf(w.app.targets.header); from != "" && from != strconv.Itoa(last.number) {
		w.fail("grpc.Header gave %v after attempt %d", w.app.targets.header, last.number)
	}
}

// callerExplains reports whether the call's end is what the end of the caller's
// context makes of it. A server that answered first keeps its answer, unless a
// retry would have followed.
func (w *world) callerExplains(last *attempt) bool {
	e := w.ended[0]
	reason, code := retrybudget.ReasonCanceled, codes.Canceled
	if w.endedAt >= w.plan.deadline {
		reason, code = retrybudget.ReasonDeadline, codes.DeadlineExceeded
	}
	if e.Reason != reason && (w.plan.maxAttempts > 1 || e.Reason != retrybudget.ReasonDisabled) {
		return false
	}
	return e.Code == code || slices.ContainsFunc(w.endings(last, w.endedAt), func(end outcome) bool {
		stands := e.Call.Attempt == 1 || !end.retryable || w.mayBeCommitted(last)
		return stands && matches(e, end)
	})
}

// judgeBudget: a retry took one token, a first attempt that succeeded put a tenth
// in; so does a caller that cancels after a message. One that ends the wait for a
// retry has spent the token all the same.
func (w *world) judgeBudget() {
	e, last := w.ended[0], w.attempts[len(w.attempts)-1]
	spent := float64(len(w.retries))
	allowed := []float64{spent}
	switch {
	case e.Call.Attempt == 1 && e.Reason == retrybudget.NoReason:
		allowed = []float64{spent - 0.1}
	case e.Call.Attempt == 1 && len(w.app.got) > 0 && w.callerEnded():
		allowed = []float64{spent - 0.1}
		if last.finished || w.endedAt >= w.plan.deadline { // the server may have been first; a deadline is no cancel
			allowed = append(allowed, spent)
		}
	case w.callerEnded():
		allowed = append(allowed, spent+1)
	}
	for b := range w.r.Budgets() {
		if b.Method != method {
			continue
		}
		if !slices.ContainsFunc(allowed, func(s float64) bool { return math.Abs(float64(w.plan.tokens)-s-b.Tokens) < 1e-9 }) {
			w.fail("the budget has %v of %d tokens after %d retries", b.Tokens, w.plan.tokens, len(w.retries))
		}
		return
	}
	w.fail("there is no budget")
}
