package retrybudget

import (
	"context"
	"strconv"

	"google.golang.org/grpc/metadata"
)

// attemptHeader is gRFC A6's: the number of attempts before this one, so 1 on
// the first retry and absent on the original.
const attemptHeader = "grpc-previous-rpc-attempts"

type attemptKey struct{}

// attemptContext is the context of a retry, and of a first attempt that had to
// get a context anyway. It knows the headers that belong to this call alone, so
// that another call made with it can leave them behind.
type attemptContext struct {
	context.Context //nolint:containedctx // this is a context

	set     *settings // names the headers; nil when there are none
	attempt int32
	marked  bool // it set the attempt header
	keyed   bool // it set the idempotency key
}

func (c *attemptContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// AttemptFromContext returns the number of the attempt that ctx belongs to,
// counted from 1, for interceptors further in, stats handlers and logs. A
// context without one is that of a first attempt and reports 1.
func AttemptFromContext(ctx context.Context) int {
	if a, ok := ctx.Value(attemptKey{}).(*attemptContext); ok {
		return int(a.attempt)
	}
	return 1
}

// inAttempt reports whether ctx is the context of an attempt.
func inAttempt(ctx context.Context) bool {
	_, ok := ctx.Value(attemptKey{}).(*attemptContext)
	return ok
}

// ownContext returns the context a call starts from. A call made with the
// context of another call's attempt (an interceptor or a credential plugin
// calling out) starts without that attempt's headers and counts from 1. Two
// Retriers on one connection leave two sets of headers.
func ownContext(ctx context.Context) context.Context {
	outer, ok := ctx.Value(attemptKey{}).(*attemptContext)
	if !ok {
		return ctx
	}
	if md, has := metadata.FromOutgoingContext(ctx); has { // a copy
		for ; outer != nil; outer, _ = outer.Context.Value(attemptKey{}).(*attemptContext) {
			if outer.marked {
				delete(md, outer.set.cfg.attemptHeader)
			}
			if outer.keyed {
				delete(md, outer.set.keyHeader)
			}
		}
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	return &attemptContext{Context: ctx, attempt: 1}
}

// withIdempotencyKey returns ctx with a new random key under the settings'
// header, unless the caller set one.
func withIdempotencyKey(ctx context.Context, set *settings) context.Context {
	if len(metadata.ValueFromOutgoingContext(ctx, set.keyHeader)) > 0 {
		return ctx
	}
	ctx = metadata.AppendToOutgoingContext(ctx, set.keyHeader, newIdempotencyKey())
	return &attemptContext{Context: ctx, set: set, attempt: 1, keyed: true}
}

// markAttempt makes c the context of a retry: the attempt header holds the number
// of attempts before it as its only value, and [AttemptFromContext] reports
// attempt. ctx is the call's, which no attempt has touched; taken says that the
// caller set the header.
func (c *attemptContext) markAttempt(ctx context.Context, set *settings, attempt int, taken bool) {
	header, previous := set.cfg.attemptHeader, strconv.Itoa(attempt-1)
	if taken {
		md, _ := metadata.FromOutgoingContext(ctx) // a copy
		md.Set(header, previous)
		ctx = metadata.NewOutgoingContext(ctx, md)
	} else {
		ctx = metadata.AppendToOutgoingContext(ctx, header, previous)
	}
	c.Context, c.set, c.attempt, c.marked = ctx, set, int32(attempt), true
}
