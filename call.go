package retrybudget

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// call is one call of the application: what it was made with, and what its
// attempts came to so far. Unary calls and streams drive it the same way: begin,
// then for each attempt either succeeded, or next, which decides and waits.
// One goroutine at a time uses it.
type call struct {
	r      *Retrier
	cfg    *config
	key    *key
	set    *settings
	cc     *grpc.ClientConn
	target string
	method string
	native bool // grpc-go's own retries may be on

	ctx    context.Context    //nolint:containedctx // the call's context, for the length of the call
	cancel context.CancelFunc // ends Policy.Timeout, nil without

	attempt   int       // the number of the attempt under way
	timed     bool      // the attempt under way is measured
	started   time.Time // of the attempt under way, when timed
	began     time.Time // of the call, with an observer
	keyHeader string    // the idempotency key's header, if this call set the key

	granted bool  // the budget granted the attempt under way
	grant   Cause // what it was asked with

	retries  int           // place in the backoff; a pushback resets it
	previous time.Duration // the last backoff wait, likewise
	wait     time.Duration // before the attempt under way
	waited   time.Duration // before all attempts
	guided   bool          // the server set wait

	records []AttemptRecord // the first and the last attempts
}

// attemptEnd is how an attempt failed.
type attemptEnd struct {
	err     error
	trailer metadata.MD
	// timeout is the attempt's own timeout if that ended it, else 0.
	timeout   time.Duration
	committed bool // a stream gave something to the application
}

// begin prepares c for its first attempt.
func (c *call) begin(ctx context.Context, opts []grpc.CallOption, found callOptions) error {
	c.cfg = c.r.config.Load()
	if c.cc != nil {
		c.target = c.cc.Target()
	}
	c.key = c.r.keyOf(c.cfg, c.target, c.method)
	c.set = c.key.policy(c.cfg, c.method)
	if c.cfg.observer != nil {
		c.began = time.Now()
	}
	c.ctx = ownContext(ctx)
	if found.own {
		var err error
		if c.set, err = override(c.set, opts); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
	if c.set.keyHeader != "" {
		if with := withIdempotencyKey(c.ctx, c.set.keyHeader); with != c.ctx {
			c.ctx, c.keyHeader = with, c.set.keyHeader
		}
	}
	if c.set.timeout > 0 {
		c.ctx, c.cancel = context.WithTimeout(c.ctx, c.set.timeout)
	}
	c.startAttempt()
	return nil
}

// disabled reports whether this call is a single attempt.
func (c *call) disabled() bool {
	return c.cfg.mode == Off || c.set.disabled || c.set.maxAttempts == 1
}

func (c *call) startAttempt() {
	c.attempt++
	c.timed = c.cfg.observer != nil || c.key.latency.sample()
	if c.timed {
		c.started = time.Now()
	}
}

// attemptContext returns the context of the attempt under way, without a
// timeout of its own.
func (c *call) attemptContext() context.Context {
	if c.attempt == 1 {
		return c.ctx
	}
	return withAttempt(c.ctx, c.cfg.attemptHeader, c.keyHeader, c.attempt)
}

// attemptTimeout returns the timeout of the attempt under way, 0 for none. An
// attempt that no other can follow gets all the time that the call has left.
func (c *call) attemptTimeout() time.Duration {
	d := c.set.perAttemptTimeout
	if d == 0 {
		return 0
	}
	if c.disabled() || c.attempt >= c.set.maxAttempts || !c.set.retriesTimeouts() {
		if _, has := c.ctx.Deadline(); has {
			return 0
		}
	}
	return d
}

func (c *call) info() CallInfo {
	return CallInfo{Context: c.ctx, Method: c.method, Target: c.target, Attempt: c.attempt, Idempotency: c.set.level}
}

// succeeded ends the attempt under way with OK, as far as budget and latency are
// concerned.
func (c *call) succeeded() {
	if c.attempt == 1 {
		c.key.budget.RecordSuccess()
	}
	c.settle(Succeeded)
	if c.timed {
		c.key.latency.record(time.Since(c.started), c.r.now())
	}
}

// now is the time since the Retrier was made, which never jumps.
func (r *Retrier) now() int64 { return int64(time.Since(r.start)) }

// settle tells the budget how the attempt under way ended, if it granted it and
// has not been told.
func (c *call) settle(o Outcome) {
	if c.granted {
		c.granted = false
		c.key.budget.Settle(c.grant, o)
	}
}

// callerDone returns why the caller's context has ended, or NoReason. The deadline
// itself counts: the context's timer may fire later than the server's.
func (c *call) callerDone() Reason {
	switch c.ctx.Err() {
	case nil:
	case context.DeadlineExceeded:
		return ReasonDeadline
	default:
		return ReasonCanceled
	}
	if deadline, has := c.ctx.Deadline(); has && !deadline.After(time.Now()) {
		return ReasonDeadline
	}
	return NoReason
}

func (c *call) connClosed() bool {
	return c.cc != nil && c.cc.GetState() == connectivity.Shutdown
}

// next decides what follows the failed attempt under way. It returns true when
// another attempt is to be sent now, after having waited for it; otherwise the
// error that the caller gets.
func (c *call) next(end attemptEnd) (bool, error) {
	f := c.examine(end)
	c.record(f.record)
	c.settle(f.outcome)
	if f.counts && !c.disabled() {
		c.key.budget.RecordFailure(f.cause)
	}
	if c.attempt == 1 && f.success {
		c.key.budget.RecordSuccess()
	}
	q := question{
		disabled: c.disabled(), caller: f.caller, closing: f.closing,
		methodTimeout: f.methodTimeout, retryable: f.retryable,
		committed: end.committed, connClosed: c.connClosed(),
		veto: f.guidance.veto, serverDelay: f.guidance.serverDelay(), maxServerDelay: c.cfg.maxServerDelay,
		attempt: c.attempt, maxAttempts: c.set.maxAttempts,
		wait: func() time.Duration { return c.nextWait(&f) },
		take: func() bool { return c.take(&f) },
	}
	if deadline, has := c.ctx.Deadline(); has {
		q.hasDeadline, q.left, q.need = true, time.Until(deadline), c.timeNeeded()
	}
	wait, reason := decide(q)
	if reason == NoReason {
		if reason = c.sleep(wait); reason == NoReason {
			c.sendNext(&f, wait)
			return true, nil
		}
		c.settle(Abandoned)
		f.waiting = true
	}
	return false, c.refuse(&f, reason)
}

// take asks the budget for a retry after f.
func (c *call) take(f *failure) bool {
	c.granted = c.key.budget.TryTake(f.cause)
	c.grant = f.cause
	if c.granted {
		return true
	}
	if c.cfg.mode != Observe {
		return false
	}
	if o := c.cfg.observer; o != nil {
		o.RetryRefused(RefusalEvent{Call: c.info(), Cause: f.record, Reason: ReasonBudget, Observed: true})
	}
	return true
}

// nextWait returns the wait before a retry after f: the server's pushback
// exactly, else the backoff, but not less than what RetryInfo asks for.
func (c *call) nextWait(f *failure) time.Duration {
	c.guided = f.guidance.toldWhen()
	if f.guidance.pushback {
		c.retries, c.previous = 0, 0
		return f.guidance.delay
	}
	c.retries++
	wait := c.set.backoff.Wait(BackoffInput{
		Retry: c.retries, Previous: c.previous,
		Code: f.record.Code, Err: f.record.Err, Call: c.info(),
	})
	c.previous = wait
	if asked := f.guidance.retryInfo; asked > 0 {
		wait = max(wait, jitterUp(asked))
	}
	return wait
}

// timeNeeded estimates how long an attempt takes. A common key mixes methods, so
// it knows nothing.
func (c *call) timeNeeded() time.Duration {
	if c.key.common {
		return 0
	}
	need := c.key.latency.estimate(c.r.now())
	if limit := c.set.perAttemptTimeout; limit > 0 {
		need = min(need, limit)
	}
	return need
}

// sleep waits for d, and returns early with the reason when the caller's context
// ends or the connection is closed. Both are looked at even when d is 0.
func (c *call) sleep(d time.Duration) Reason {
	if d > 0 {
		ctx, cancel := context.WithTimeout(c.ctx, d)
		if c.cc == nil {
			<-ctx.Done()
		} else {
			for state := c.cc.GetState(); state != connectivity.Shutdown; state = c.cc.GetState() {
				if !c.cc.WaitForStateChange(ctx, state) {
					break
				}
			}
		}
		cancel()
	}
	if reason := c.callerDone(); reason != NoReason {
		return reason
	}
	if c.connClosed() {
		return ReasonClosed
	}
	return NoReason
}

// sendNext starts the next attempt, after f and a wait.
func (c *call) sendNext(f *failure, wait time.Duration) {
	c.startAttempt()
	c.wait = wait
	c.waited += wait
	if o := c.cfg.observer; o != nil {
		o.RetrySent(RetryEvent{Call: c.info(), Cause: f.record, Wait: wait, FromGuidance: c.guided})
	}
}

// record remembers an attempt: the first and the last of them.
func (c *call) record(a AttemptRecord) {
	if c.records == nil {
		c.records = make([]AttemptRecord, 0, defaultMaxAttempts)
	}
	if len(c.records) < 2*keptRecords {
		c.records = append(c.records, a)
		return
	}
	copy(c.records[keptRecords:], c.records[keptRecords+1:])
	c.records[2*keptRecords-1] = a
}

// refuse reports that no attempt follows f and returns the caller's error.
func (c *call) refuse(f *failure, reason Reason) error {
	err := c.finalError(f, reason)
	o := c.cfg.observer
	if o == nil {
		return err
	}
	if f.retryable && reason != ReasonDisabled {
		o.RetryRefused(RefusalEvent{Call: c.info(), Cause: f.record, Reason: reason})
	}
	c.ended(err, reason)
	return err
}

// finalError returns what the caller gets for f and reason.
func (c *call) finalError(f *failure, reason Reason) error {
	last := f.record.Err
	switch reason {
	case ReasonDisabled, ReasonNotRetryable, ReasonCommitted:
		return last
	case ReasonBudget, ReasonMaxAttempts:
		return newError(reason, c.attempt, c.records, last, "")
	case ReasonPushback:
		what := "server pushback forbids a retry"
		if d := f.guidance.serverDelay(); !f.guidance.veto {
			what = fmt.Sprintf("server pushback of %v is longer than the limit of %v", d, c.cfg.maxServerDelay)
		}
		return newError(reason, c.attempt, c.records, last, what)
	case ReasonClosed:
		if f.closing && c.attempt == 1 {
			return last
		}
		return newError(reason, c.attempt, c.records, last, "")
	}
	// The caller's context ended, or there is no time left for a retry.
	switch {
	case f.waiting:
		return newContextError(c.ctx, reason, c.attempt, c.records, last)
	case f.caller == NoReason:
		return newError(reason, c.attempt, c.records, last, "")
	case c.attempt == 1 || f.answered:
		return last
	default:
		before := c.records[len(c.records)-2].Err
		return newContextError(c.ctx, reason, c.attempt, c.records, before)
	}
}

// ended tells the observer that the call is over.
func (c *call) ended(err error, reason Reason) {
	o := c.cfg.observer
	if o == nil {
		return
	}
	if err == nil {
		c.record(AttemptRecord{Attempt: c.attempt, Wait: c.wait, Duration: time.Since(c.started)})
	}
	o.CallEnded(CallEvent{
		Call: c.info(), Code: status.Code(err), Err: err, Reason: reason,
		Attempts: c.records, Waited: c.waited, Duration: time.Since(c.began),
	})
}
