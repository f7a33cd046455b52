package retrybudget

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// callOption is a grpc.CallOption that only this library reads. It is stripped
// before the next interceptor or grpc-go sees the options, and changes nothing
// beyond its call.
type callOption struct {
	grpc.EmptyCallOption
	err   error
	apply func(*settings)
}

// newCallOption returns the option that runs apply, or, when err is not nil,
// one that fails the call with it.
func newCallOption(err error, apply func(*settings)) grpc.CallOption {
	return &callOption{err: err, apply: apply}
}

// CallMaxAttempts sets [Policy.MaxAttempts] for one call. 0 means 3; a negative
// number fails the call with code INTERNAL, as all invalid call options do.
func CallMaxAttempts(n int) grpc.CallOption {
	if n == 0 {
		return newCallOption(nil, func(s *settings) { s.maxAttempts = defaultMaxAttempts })
	}
	return newCallOption(validateMaxAttempts("CallMaxAttempts", n), func(s *settings) { s.maxAttempts = n })
}

// CallRetryableCodes sets [Policy.RetryableCodes] for one call.
func CallRetryableCodes(list ...codes.Code) grpc.CallOption {
	if list == nil {
		list = []codes.Code{}
	}
	set, err := retryableCodes("CallRetryableCodes", list)
	return newCallOption(err, func(s *settings) { s.codes, s.hasCodes = set, true })
}

// CallBackoff sets [Policy.Backoff] for one call; nil means the default.
func CallBackoff(b Backoff) grpc.CallOption {
	chosen, err := chooseBackoff("CallBackoff", b, nil)
	return newCallOption(err, func(s *settings) { s.backoff = chosen })
}

// CallBackoffFunc sets [Policy.BackoffFunc] for one call; nil means the default
// backoff.
func CallBackoffFunc(f BackoffFunc) grpc.CallOption {
	chosen, err := chooseBackoff("CallBackoffFunc", nil, f)
	return newCallOption(err, func(s *settings) { s.backoff = chosen })
}

// CallPerAttemptTimeout sets [Policy.PerAttemptTimeout] for one call; 0 means
// none.
func CallPerAttemptTimeout(d time.Duration) grpc.CallOption {
	return newCallOption(validateTimeout("CallPerAttemptTimeout", d), func(s *settings) { s.perAttemptTimeout = d })
}

// CallIdempotency sets the idempotency of one call. It outranks policy,
// idempotency key and descriptor; [IdempotencyUnknown] leaves them to decide.
func CallIdempotency(level Idempotency) grpc.CallOption {
	return newCallOption(level.validate("CallIdempotency"), func(s *settings) { s.callLevel = level })
}

// CallIdempotencyKey sets [Policy.IdempotencyKey] for one call: header gets a
// random key, the same on all attempts, unless the caller set one. Empty means
// none.
func CallIdempotencyKey(header string) grpc.CallOption {
	header = strings.ToLower(header)
	var err error
	if header != "" {
		err = validateHeaderName("CallIdempotencyKey", header)
	}
	return newCallOption(err, func(s *settings) { s.keyHeader = header })
}

// CallDisabled makes one call a single attempt, whose error is returned as it
// is.
func CallDisabled() grpc.CallOption {
	return newCallOption(nil, func(s *settings) { s.disabled = true })
}

// mark travels with the options of every attempt, so that the same Retrier
// further in on the same connection lets the attempt pass instead of retrying it
// again. A context value would also reach calls to other methods that inner
// interceptors make.
type mark struct {
	grpc.EmptyCallOption
	r *Retrier
}

// callOptions is what a look at the options of a call found.
type callOptions struct {
	marked   bool // by the same Retrier further out
	foreign  bool // marked by another Retrier further out
	own      bool // at least one callOption
	onFinish bool // at least one grpc.OnFinish
}

func scan(opts []grpc.CallOption, r *Retrier) (found callOptions) {
	for _, o := range opts {
		switch o := o.(type) {
		case *callOption:
			found.own = true
		case *mark:
			found.marked = found.marked || o.r == r
			found.foreign = true
		case grpc.OnFinishCallOption:
			found.onFinish = true
		}
	}
	return found
}

// plainOptions reports whether scan would find nothing.
func plainOptions(opts []grpc.CallOption) bool {
	for _, o := range opts {
		switch o.(type) {
		case *callOption, *mark, grpc.OnFinishCallOption:
			return false
		}
	}
	return true
}

// override returns base with the call options applied, or the first error one
// of them carries.
func override(base *settings, opts []grpc.CallOption) (*settings, error) {
	s := *base
	s.callOptions = opts
	for _, o := range opts {
		own, ok := o.(*callOption)
		if !ok {
			continue
		}
		if own.err != nil {
			return base, fmt.Errorf("%w (call option)", own.err)
		}
		own.apply(&s)
	}
	if err := s.checkHeaders(); err != nil {
		return base, fmt.Errorf("%w (CallIdempotencyKey)", err)
	}
	s.resolve()
	return &s, nil
}

// passOn appends to dst the options that an attempt carries: all of the
// caller's but this library's and OnFinish, which is the whole call's. The
// caller's slice is only read.
func passOn(dst, opts []grpc.CallOption) []grpc.CallOption {
	for _, o := range opts {
		switch o.(type) {
		case *callOption, grpc.OnFinishCallOption:
		default:
			dst = append(dst, o)
		}
	}
	return dst
}

// finish runs the caller's OnFinish functions, as grpc-go does at the end of a
// call.
func finish(opts []grpc.CallOption, err error) {
	for _, o := range opts {
		if f, ok := o.(grpc.OnFinishCallOption); ok && f.OnFinish != nil {
			f.OnFinish(err)
		}
	}
}
