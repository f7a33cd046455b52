package streammodel_test

import (
	"time"
)

// watch looks again and again, until done, at what must hold whenever everything
// has come to rest. It does so at instants of its own: time only reaches them
// when nothing else can go on.
func (w *world) watch(done <-chan struct{}) {
	for at := w.began.Add(unit + 500*time.Nanosecond); ; at = at.Add(unit) {
		select {
		case <-done:
			return
		case <-time.After(time.Until(at)):
		}
		held := w.r.ReplayBytes()
		w.mu.Lock()
		if held > int64(w.plan.limit) {
			w.fail("%d bytes are kept for replay, the limit is %d", held, w.plan.limit)
		}
		w.look()
		stop := len(w.wrong) > 0
		w.mu.Unlock()
		if stop {
			return
		}
	}
}

// look sees to it that nothing is stuck: neither side waits for what the other
// has done, and attempts that are given up are over.
func (w *world) look() {
	for i, a := range w.attempts {
		late := w.timesOut(a) && w.now() > a.start+w.plan.attemptTimeout && !w.mayBeCommitted(a)
		switch {
		case a.over:
		case i < len(w.attempts)-1:
			w.fail("attempt %d is still alive beside attempt %d", a.number, w.attempts[i+1].number)
		case late:
			w.fail("attempt %d is still alive after its timeout", a.number)
		}
	}
	if _, closing := w.app.in(doClose); closing {
		w.fail("CloseSend does not return")
	}
	if len(w.attempts) == 0 {
		return
	}
	last := w.attempts[len(w.attempts)-1]
	if last.over {
		w.lookAtWait(last)
		return
	}
	if last.receiving && len(last.received) < len(w.app.sends) {
		w.fail("attempt %d waits for message %d of %d that were sent", last.number, len(last.received)+1, len(w.app.sends))
	}
	if last.receiving && w.halfClosed() {
		w.fail("attempt %d does not see the half-close", last.number)
	}
	if _, receiving := w.app.in(doReceive); receiving && w.plan.serverStreams && len(last.sent) > len(w.app.got) {
		w.fail("the application does not receive message %d of %d", len(w.app.got)+1, len(last.sent))
	}
	if _, asking := w.app.in(doHeader); asking && (last.header || len(last.sent) > 0) {
		w.fail("the application does not get the headers")
	}
}

// lookAtWait sees to it that the application is only kept waiting without an
// attempt for as long as the wait before a retry is. A sender may wait for
// longer: the end of an attempt comes behind messages that nobody receives.
func (w *world) lookAtWait(last *attempt) {
	waiting := []verb{doReceive, doHeader}
	if _, yes := w.app.in(waiting...); yes || len(last.sent) <= len(w.app.got) {
		waiting = append(waiting, doSend)
	}
	since, yes := w.app.in(waiting...)
	if !yes {
		return
	}
	since = max(since, last.end)
	least, most := w.plan.backoff, w.plan.backoff // as far as can be said before it is over
	if last.finished {
		_, wait := w.guidance(last.script)
		least, most = min(least, wait), max(most, wait)
	}
	switch {
	case w.now()-since > most:
		w.fail("the application is stuck: attempt %d is over since %v", last.number, last.end)
	case since+least >= w.plan.deadline && !w.app.isGone:
		w.fail("the application waits after attempt %d for a retry that the deadline forbids", last.number)
	}
}

// halfClosed reports whether the application sends no more.
func (w *world) halfClosed() bool {
	return w.app.closed || !w.plan.clientStreams && w.app.sent > 0
}
