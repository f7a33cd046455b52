package retrybudget

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

// unaryAttempt is what one attempt of a unary call hands to the next
// interceptor, and the one allocation of a call that succeeds at once. It is
// used for that attempt alone: whoever holds on to it afterwards must not find
// another attempt's trailer there.
type unaryAttempt struct {
	option  attemptOption
	trailer metadata.MD
	opts    [3]grpc.CallOption // room for the usual two and ours
}

// unary returns the interceptor for unary calls. native says that grpc-go's own
// retries may be on.
func (r *Retrier) unary(native bool) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		found := r.scan(opts)
		if found.marked {
			return invoker(ctx, method, req, reply, cc, opts...)
		}
		c := call{r: r, cc: cc, method: method, native: native}
		err := c.begin(ctx, opts, found)
		if err == nil {
			if c.cancel != nil {
				defer c.cancel()
			}
			err = c.unary(req, reply, invoker, opts, found)
		}
		if found.onFinish {
			finish(opts, err)
		}
		return err
	}
}

// unary sends attempts until one succeeds or next says that none follows.
func (c *call) unary(req, reply any, invoker grpc.UnaryInvoker, opts []grpc.CallOption, found callOptions) error {
	for {
		end := c.send(req, reply, invoker, opts, found)
		if end.err == nil {
			c.succeeded()
			c.ended(nil, NoReason)
			return nil
		}
		again, err := c.next(end)
		if !again {
			return err
		}
		resetReply(reply)
		resetTargets(opts)
	}
}

// send makes the attempt under way and returns how it ended.
func (c *call) send(req, reply any, invoker grpc.UnaryInvoker, opts []grpc.CallOption, found callOptions) (end attemptEnd) {
	ctx := c.attemptContext()
	timeout := c.attemptTimeout()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	panicked := true
	defer func() {
		if panicked { // in an inner interceptor; the panic goes on
			c.settle(Failed)
		}
	}()
	a := new(unaryAttempt)
	a.option.r, a.option.TrailerAddr = c.r, &a.trailer
	pass := append(passOn(a.opts[:0], opts, found), &a.option)
	end.err = invoker(ctx, c.method, req, reply, c.cc, pass...)
	panicked = false
	end.trailer = a.trailer
	if end.err != nil && timeout > 0 && hasEnded(ctx) {
		end.timeout = timeout
	}
	return end
}

// hasEnded reports whether the context of an attempt has ended. Its deadline
// counts from the moment it is reached, whether or not its timer has fired.
func hasEnded(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !deadline.After(time.Now())
}

// resetReply clears what a failed attempt may have left in the reply.
func resetReply(reply any) {
	switch m := reply.(type) {
	case proto.Message:
		proto.Reset(m)
	case interface{ Reset() }:
		m.Reset()
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
