package retrybudget

import (
	"math"
	"time"

	"google.golang.org/grpc/codes"
)

// WithResolverPolicies gives methods that have no policy in the program's code,
// its configuration or their .proto file that of the retryPolicy in the service
// config which the connection's resolver delivered: DNS, xDS or one of the
// application's own can change policies while the program runs. Methods that the
// service config gives no retryPolicy have the library's default.
//
// Connect with [Retrier.DialOptions], or with grpc.WithDisableRetry: otherwise
// grpc-go applies the same policy inside every attempt, and with this option
// nothing reports that.
//
// The policy is read when the first attempt of a call has failed and holds for
// the rest of the call, so a call that succeeds at once costs no more than
// without the option, and a call that had to wait for the resolver has the
// policy too. A change applies to calls that fail from then on; budgets are not
// touched by it, so that no change ever refills one. The service config's
// timeout is applied by grpc-go, to each attempt; a call whose attempt it ended
// is not retried.
//
// The codes of a retryPolicy are retried on methods not marked non-idempotent.
// What grpc-go accepts is used as it is. In particular it reduces maxAttempts to
// five unless the connection was made with grpc.WithMaxCallAttempts, and waits
// have the jitter of gRFC A6, a fifth up or down. Call options change single
// fields as of any policy.
func WithResolverPolicies() Option {
	return optionFunc(func(b *builder) { b.cfg.resolver = true })
}

// resolvedPolicy is a retryPolicy of the resolver, and the settings that it made
// of base. grpc-go keeps each policy at an address of its own.
type resolvedPolicy struct {
	policy    any
	base, set *settings
}

// takeResolverPolicy gives the call the resolver's policy, if it is to have one.
func (t *retries) takeResolverPolicy() {
	if t.cc == nil || t.disabled() {
		return
	}
	p := t.cc.GetMethodConfig(t.method).RetryPolicy // takes a lock
	if p == nil {
		return
	}
	if r := t.key.resolved.Load(); r != nil && r.policy == any(p) && r.base == t.set {
		t.set = r.set
		return
	}
	base, next := t.set, *t.set
	next.maxAttempts = p.MaxAttempts
	next.backoff = a6Backoff{p.InitialBackoff, p.MaxBackoff, p.BackoffMultiplier}
	next.codes, next.hasCodes = 0, true
	for code := range p.RetryableStatusCodes {
		if code != codes.OK && code <= maxCode {
			next.codes |= 1 << code
		}
	}
	for _, o := range next.callOptions { // they outrank it
		if own, ok := o.(*callOption); ok {
			own.apply(&next)
		}
	}
	next.resolve()
	t.set = &next
	if base.callOptions == nil && !t.key.common {
		t.key.resolved.Store(&resolvedPolicy{p, base, t.set})
	}
}

// a6Backoff is the backoff of a retryPolicy. gRFC A6 asks for no more of the
// values than that they are positive, so waits may also shrink.
type a6Backoff struct {
	initial, most time.Duration
	multiplier    float64
}

func (b a6Backoff) Wait(in BackoffInput) time.Duration {
	d := b.most
	if grown := float64(b.initial) * math.Pow(b.multiplier, float64(in.Retry-1)); grown < float64(d) {
		d = time.Duration(grown)
	}
	return clampWait(between(uint64(d-d/5), uint64(d)+uint64(d/5)), NoMaxBackoff)
}
