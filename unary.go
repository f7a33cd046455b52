package retrybudget

import (
	"context"
	"math"
	"slices"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

// unary returns the interceptor for unary calls. native says that grpc-go's own
// retries may be on.
func (r *Retrier) unary(native bool) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		key, set := r.lookUp(cc, method)
		plain := set.plain && plainOptions(opts) && !inAttempt(ctx)
		var first attemptEnd
		var started int64
		var timed bool
		if plain {
			// Most calls end here, and for them the bookkeeping below would
			// cost as much as all the rest.
			a := new(unaryAttempt)
			pass := a.options(r, opts, true)
			timed = set.observed || key.latency.cold() || a.sampled()
			if timed {
				started = r.now()
			}
			first.err = invoker(ctx, method, req, reply, cc, pass...)
			if first.err == nil && !timed {
				key.budget.RecordSuccess()
				return nil
			}
			first.trailer = a.trailer
		}
		u := unaryCall{
			retries: retries{call: call{r: r, key: key, set: set, cc: cc, method: method, ctx: ctx, native: native}},
			req:     req, reply: reply, invoker: invoker, opts: opts, plain: plain,
		}
		if !plain {
			return u.run()
		}
		u.attempt, u.started, u.timed = 1, started, timed
		if first.err == nil {
			u.succeededAtOnce()
			return nil
		}
		return u.retry(&first)
	}
}

// unaryCall is a unary call: what every call has, and what its attempts are made
// with.
type unaryCall struct {
	retries
	req, reply any
	invoker    grpc.UnaryInvoker
	opts       []grpc.CallOption
	plain      bool // all opts are for the attempts
}

// run sends attempts until one succeeds or none may follow.
func (u *unaryCall) run() error {
	found := scan(u.opts, u.r)
	if found.marked {
		return u.invoker(u.ctx, u.method, u.req, u.reply, u.cc, u.opts...)
	}
	err := u.begin(found, u.opts)
	if err == nil {
		if u.cancel != nil {
			defer u.cancel()
		}
		err = u.attempts()
	}
	if found.onFinish {
		finish(u.opts, err)
	}
	return err
}

func (u *unaryCall) attempts() error {
	var end attemptEnd
	u.send(&end)
	if end.err != nil {
		return u.retry(&end)
	}
	u.succeededAtOnce()
	return nil
}

// retry sends further attempts after the first one, which failed as end says.
func (u *unaryCall) retry(end *attemptEnd) error {
	// The budget must hear of the end of a retry even when an interceptor
	// further in panics. Otherwise it has heard by then.
	defer u.settle(Failed)
	for {
		again, err := u.next(end)
		if !again {
			return err
		}
		resetReply(u.reply)
		resetTargets(u.opts)
		u.send(end)
		if end.err == nil {
			u.answered()
			u.succeeded()
			return nil
		}
	}
}

// send makes the attempt that is under way and says in end how it ended.
func (u *unaryCall) send(end *attemptEnd) {
	a := new(markedAttempt)
	pass := a.options(u.r, u.opts, u.plain)
	u.startClock(a.sampled())
	ctx := u.attemptContext(&a.ctx)
	end.timeout = u.attemptTimeout()
	if end.timeout > 0 {
		u.invokeWithin(ctx, pass, end)
	} else {
		end.err = u.invoker(ctx, u.method, u.req, u.reply, u.cc, pass...)
	}
	end.trailer = a.trailer
}

// invokeWithin makes the attempt end after end.timeout, which is 0 afterwards if it
// ended otherwise.
func (u *unaryCall) invokeWithin(ctx context.Context, pass []grpc.CallOption, end *attemptEnd) {
	ctx, cancel := context.WithTimeout(ctx, end.timeout)
	defer cancel()
	end.err = u.invoker(ctx, u.method, u.req, u.reply, u.cc, pass...)
	if !hasEnded(ctx) {
		end.timeout = 0
	}
}

// unaryAttempt is what one attempt of a unary call hands to the next
// interceptor, and the one allocation of a call that succeeds at once. It is
// used for that attempt alone: whoever holds on to it afterwards must not find
// another attempt's trailer there.
type unaryAttempt struct {
	trailer metadata.MD
	room    [4]grpc.CallOption // for the usual two and ours
}

// sampled reports whether the attempt is measured, one in [latencySample]. Where
// the allocator put it is random enough, and free; drawing a random number would
// cost a fifth of a call that succeeds.
func (a *unaryAttempt) sampled() bool {
	const golden = 0x9E3779B1 // spreads the address over the upper bits
	return uint32(uintptr(unsafe.Pointer(a))>>4)*golden < math.MaxUint32/latencySample
}

// markedAttempt is an attempt that may be a retry.
type markedAttempt struct {
	unaryAttempt
	ctx attemptContext
}

// options returns the options that the attempt carries. plain says that all of the
// caller's pass.
func (a *unaryAttempt) options(r *Retrier, opts []grpc.CallOption, plain bool) []grpc.CallOption {
	n := len(opts)
	if !plain || n+2 > len(a.room) {
		return slices.Clip(append(passOn(a.room[:0], opts), grpc.Trailer(&a.trailer), r.mark))
	}
	for i, o := range opts { //nolint:staticcheck // for one or two, a bulk copy costs more
		a.room[i] = o
	}
	a.room[n], a.room[n+1] = grpc.TrailerCallOption{TrailerAddr: &a.trailer}, r.mark
	return a.room[: n+2 : n+2] // no room for two who append to it
}

// resetReply clears what a failed attempt may have left in the reply.
func resetReply(reply any) {
	switch m := reply.(type) {
	case interface{ Reset() }: // generated messages have it
		m.Reset()
	case proto.Message:
		proto.Reset(m)
	}
}

// resetTargets clears what a failed attempt left in the targets of grpc.Header,
// grpc.Trailer and grpc.Peer, so that they hold the returned attempt's values.
func resetTargets(opts []grpc.CallOption) {
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			if o.HeaderAddr != nil {
				*o.HeaderAddr = nil
			}
		case grpc.TrailerCallOption:
			if o.TrailerAddr != nil {
				*o.TrailerAddr = nil
			}
		case grpc.PeerCallOption:
			if o.PeerAddr != nil {
				*o.PeerAddr = peer.Peer{}
			}
		}
	}
}
