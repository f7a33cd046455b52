package retrybudget

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// call is one call of the application, unary or stream: what it was made with,
// and the attempt under way. What is needed once an attempt has failed is in
// retries. One goroutine at a time uses it.
type call struct {
	r      *Retrier
	key    *key
	set    *settings // also the configuration, for the whole call
	cc     *grpc.ClientConn
	method string
	ctx    context.Context    //nolint:containedctx // the call's context, for the length of the call
	cancel context.CancelFunc // ends Policy.Timeout, nil without

	attempt int   // the number of the attempt under way
	started int64 // when it started, by Retrier.now, if timed
	timed   bool  // it is measured
	native  bool  // grpc-go's own retries may be on
	// off: retries were off when a stream began, so that nothing of it was kept.
	off bool
	// headerTaken: the caller set the attempt header itself. Known from attempt
	// 2 on.
	headerTaken bool
}

// lookUp returns what is kept of a method, and its settings.
func (r *Retrier) lookUp(cc *grpc.ClientConn, method string) (*key, *settings) {
	cfg := r.config.Load()
	target := ""
	if cc != nil {
		target = cc.Target()
	}
	k := r.keyOf(cfg, target, method)
	set := k.policy(cfg, method)
	return k, set
}

// begin prepares c for its first attempt. c has the caller's context and the
// method's settings so far.
func (c *call) begin(found callOptions, opts []grpc.CallOption) error {
	if c.set.err != nil {
		return status.Error(codes.Internal, c.set.err.Error())
	}
	if !found.foreign {
		c.ctx = ownContext(c.ctx)
	}
	if found.own {
		set, err := override(c.set, opts)
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		c.set = set
	}
	if c.set.keyHeader != "" {
		c.ctx = withIdempotencyKey(c.ctx, c.set)
	}
	if c.set.timeout > 0 {
		c.ctx, c.cancel = context.WithTimeout(c.ctx, c.set.timeout)
	}
	c.attempt = 1
	return nil
}

// startClock starts to measure the attempt under way, if that is to be done:
// sampled says so, or that somebody wants to know.
func (c *call) startClock(sampled bool) {
	c.timed = sampled || c.set.observed || c.key.latency.cold()
	if c.timed {
		c.started = c.r.now()
	}
}

// disabled reports whether this call must not be retried. Off holds for calls
// under way too: it is what one reaches for in an incident.
func (c *call) disabled() bool {
	return c.off || c.r.config.Load().mode == Off || c.set.disabled || c.set.maxAttempts == 1
}

// attemptContext returns the context of the attempt under way, without a timeout
// of its own. That of a retry is made in room.
func (c *call) attemptContext(room *attemptContext) context.Context {
	if c.attempt == 1 {
		return c.ctx
	}
	if c.attempt == 2 {
		c.headerTaken = metadata.ValueFromOutgoingContext(c.ctx, c.set.cfg.attemptHeader) != nil
	}
	room.markAttempt(c.ctx, c.set, c.attempt, c.headerTaken)
	return room
}

// attemptTimeout returns the timeout of the attempt under way, 0 for none. An
// attempt that no other can follow gets all the time that the call has left.
func (c *call) attemptTimeout() time.Duration {
	if c.set.perAttemptTimeout == 0 {
		return 0
	}
	return c.timeoutOfAttempt()
}

func (c *call) timeoutOfAttempt() time.Duration {
	if c.disabled() || c.attempt >= c.set.maxAttempts || !c.set.retriesTimeouts() {
		if _, has := c.ctx.Deadline(); has {
			return 0
		}
	}
	return c.set.perAttemptTimeout
}

func (c *call) target() string {
	if c.cc == nil {
		return ""
	}
	return c.cc.Target()
}

func (c *call) info() CallInfo {
	return CallInfo{Context: c.ctx, Method: c.method, Target: c.target(), Attempt: c.attempt, Idempotency: c.set.level}
}

// succeededAtOnce ends a call whose first attempt ended OK.
func (c *call) succeededAtOnce() {
	c.key.budget.RecordSuccess()
	if !c.timed {
		return
	}
	now := c.r.now()
	took := time.Duration(now - c.started)
	c.key.latency.record(took, now)
	if o := c.set.cfg.observer; o != nil {
		o.CallEnded(CallEvent{Call: c.info(), Last: AttemptRecord{Attempt: 1, Duration: took}, Duration: took})
	}
}

// now is the time since the Retrier was made, in nanoseconds. It never jumps, and
// costs a third of time.Now, which asks a second clock for the date.
func (r *Retrier) now() int64 { return int64(time.Since(r.start)) }
