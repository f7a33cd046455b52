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
// get a context anyway. It names the headers that belong to this call alone, so
// that another call made with it can leave them behind.
type attemptContext struct {
	context.Context //nolint:containedctx // this is a context

	attempt   int
	header    string // the attempt header, if this attempt carries one
	keyHeader string // the idempotency key's header, if this call set it
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
		return a.attempt
	}
	return 1
}

// ownContext returns the context a call starts from. A call made with the
// context of another call's attempt (an interceptor or a credential plugin
// calling out) starts without that attempt's headers and counts from 1.
func ownContext(ctx context.Context) context.Context {
	outer, ok := ctx.Value(attemptKey{}).(*attemptContext)
	if !ok {
		return ctx
	}
	if md, has := metadata.FromOutgoingContext(ctx); has { // a copy
		delete(md, outer.header)
		delete(md, outer.keyHeader)
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	return &attemptContext{Context: ctx, attempt: 1}
}

// withIdempotencyKey returns ctx with a new random key under header, unless the
// caller set one.
func withIdempotencyKey(ctx context.Context, header string) context.Context {
	if len(metadata.ValueFromOutgoingContext(ctx, header)) > 0 {
		return ctx
	}
	ctx = metadata.AppendToOutgoingContext(ctx, header, newIdempotencyKey())
	return &attemptContext{Context: ctx, attempt: 1, keyHeader: header}
}

// withAttempt returns the context of a retry: header holds the number of
// attempts before it as its only value, and [AttemptFromContext] reports
// attempt. ctx is the call's, which no attempt has touched.
func withAttempt(ctx context.Context, header, keyHeader string, attempt int) context.Context {
	previous := strconv.Itoa(attempt - 1)
	if metadata.ValueFromOutgoingContext(ctx, header) == nil {
		ctx = metadata.AppendToOutgoingContext(ctx, header, previous)
	} else {
		md, _ := metadata.FromOutgoingContext(ctx) // a copy
		md.Set(header, previous)
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	return &attemptContext{Context: ctx, attempt: attempt, header: header, keyHeader: keyHeader}
}
