package retrybudget

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// defaultMaxAttempts includes the original.
const defaultMaxAttempts = 3

// Policy is how the calls of a method are retried. The zero value is the
// library's default. It is read when passed to [New] and may be reused.
//
// Policies are matched as in a gRPC service config: the one of
// "/pkg.Service/Method", else the one of "/pkg.Service/", else the default; the
// first that matches is used whole, fields are not merged. Where policies come
// from and which of them comes first is said at [WithConfig].
type Policy struct {
	// MaxAttempts is how often a call is tried in all, the original included.
	// 0 means 3, 1 never retries, negative values are refused.
	MaxAttempts int
	// Backoff is the wait before each retry. nil means the zero
	// [ExponentialBackoff]: full jitter over 50 ms, doubled, at most 1 s.
	Backoff Backoff
	// BackoffFunc is the same as a plain function, such as one of
	// go-grpc-middleware's. At most one of the two may be set.
	BackoffFunc BackoffFunc
	// RetryableCodes, when set, is the whole list of codes that are retried on
	// methods not marked non-idempotent, whatever the server's guidance. nil
	// means the library's table; an empty list, OK and unknown codes are
	// refused.
	RetryableCodes []codes.Code
	// IdempotentCodes adds codes for idempotent methods only.
	IdempotentCodes []codes.Code
	// Idempotency says whether the method may be applied twice. Unknown asks
	// the method's descriptor: the idempotency in its (retrybudget.v1.retry)
	// option, else its idempotency_level.
	Idempotency Idempotency
	// IdempotencyKey is the name of a metadata header that gets one random key
	// per call, the same on all its attempts; a value that the caller set is
	// kept. It makes the method count as idempotent, so name it only where the
	// server drops duplicates by it. Empty means none.
	IdempotencyKey string
	// PerAttemptTimeout bounds each attempt whose timeout could be retried.
	// Attempts that could not be followed by another get the rest of the
	// call's time, or this timeout too if the call has no deadline. 0 means
	// none.
	PerAttemptTimeout time.Duration
	// Timeout is the deadline of a call whose context has none or a later one.
	// It covers all attempts and waits; on a stream, the whole stream, so one
	// that should live long needs a policy without it. 0 means none.
	Timeout time.Duration
}

// settings is a policy made ready for use, for one known idempotency. It never
// changes once a call can see it.
type settings struct {
	cfg               *config // the configuration it belongs to
	maxAttempts       int
	backoff           Backoff
	perAttemptTimeout time.Duration
	timeout           time.Duration
	keyHeader         string

	// plain is true when a first attempt needs nothing of this library: no timeout
	// or idempotency key.
	plain bool
	// observed is true when there is an observer.
	observed bool

	codes           codeSet
	idempotentCodes codeSet
	hasCodes        bool

	// retried are the codes that are retried, retriedWhenTold those where the
	// server said when to come back: by RetryInfo with a positive delay, or by a
	// pushback that is not a veto. Made by resolve.
	retried         codeSet
	retriedWhenTold codeSet

	// level is the idempotency that counts, made of what follows by resolve.
	level       Idempotency
	callLevel   Idempotency // of a call option
	policyLevel Idempotency
	declared    Idempotency // by the method's descriptor
	disabled    bool        // by a call option

	resolver    bool              // a policy of the resolver replaces this one
	callOptions []grpc.CallOption // applied to it; nil without
	err         error             // fails the call: its policy is unusable
}

// compile validates p and returns its settings. field is the path that errors
// name.
func (p Policy) compile(field string) (settings, error) {
	s := settings{
		maxAttempts:       p.MaxAttempts,
		perAttemptTimeout: p.PerAttemptTimeout,
		timeout:           p.Timeout,
		policyLevel:       p.Idempotency,
		keyHeader:         strings.ToLower(p.IdempotencyKey),
	}
	if s.maxAttempts == 0 {
		s.maxAttempts = defaultMaxAttempts
	}
	var errs []error
	check := func(err error) { errs = append(errs, err) }
	check(validateMaxAttempts(field+".MaxAttempts", p.MaxAttempts))
	check(p.Idempotency.validate(field + ".Idempotency"))
	check(validateTimeout(field+".PerAttemptTimeout", p.PerAttemptTimeout))
	check(validateTimeout(field+".Timeout", p.Timeout))
	if p.IdempotencyKey != "" {
		check(validateHeaderName(field+".IdempotencyKey", s.keyHeader))
	}
	var err error
	s.codes, err = retryableCodes(field+".RetryableCodes", p.RetryableCodes)
	check(err)
	s.hasCodes = p.RetryableCodes != nil
	s.idempotentCodes, err = newCodeSet(field+".IdempotentCodes", p.IdempotentCodes)
	check(err)
	s.backoff, err = chooseBackoff(field, p.Backoff, p.BackoffFunc)
	check(err)
	return s, errors.Join(errs...)
}

// resolve sets what follows from the other fields. The idempotency that counts
// is, in this order, that of the call option, the presence of an idempotency
// key, the policy's and the descriptor's.
func (s *settings) resolve() {
	s.observed = s.cfg.observer != nil
	s.plain = s.keyHeader == "" && s.timeout == 0 && s.perAttemptTimeout == 0 && s.err == nil
	switch {
	case s.callLevel != IdempotencyUnknown:
		s.level = s.callLevel
	case s.keyHeader != "":
		s.level = Idempotent
	case s.policyLevel != IdempotencyUnknown:
		s.level = s.policyLevel
	case s.declared != IdempotencyUnknown:
		s.level = s.declared
	case s.cfg.strict:
		s.level = NonIdempotent
	default:
		s.level = IdempotencyUnknown
	}
	s.resolveCodes()
}

// retriesTimeouts reports whether an attempt that its own timeout ends could be
// retried. With a classifier nobody can know beforehand, so it counts as yes.
func (s *settings) retriesTimeouts() bool {
	return s.cfg.classifier != nil || s.retried.has(codes.DeadlineExceeded)
}

func validateMaxAttempts(field string, n int) error {
	if n < 0 {
		return fmt.Errorf("retrybudget: %s %d is negative", field, n)
	}
	return nil
}

func validateTimeout(field string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("retrybudget: %s %v is negative", field, d)
	}
	return nil
}

func retryableCodes(field string, list []codes.Code) (codeSet, error) {
	if list != nil && len(list) == 0 {
		return 0, fmt.Errorf("retrybudget: %s is empty: leave it out for the default table, or set MaxAttempts to 1 to never retry", field)
	}
	return newCodeSet(field, list)
}

func chooseBackoff(field string, b Backoff, f BackoffFunc) (Backoff, error) {
	switch {
	case b != nil && f != nil:
		return nil, fmt.Errorf("retrybudget: %s.Backoff and %s.BackoffFunc are both set", field, field)
	case f != nil:
		return plainBackoff{f}, nil
	case b != nil:
		return b, validateBackoff(field+".Backoff", b)
	default:
		return ExponentialBackoff{}, nil
	}
}

// checkHeaders refuses an idempotency key in the header that counts attempts.
func (s *settings) checkHeaders() error {
	if s.keyHeader != "" && s.keyHeader == s.cfg.attemptHeader {
		return fmt.Errorf("retrybudget: idempotency key header %q is the attempt header", s.keyHeader)
	}
	return nil
}

// validateMethodName accepts "/pkg.Service/Method" and "/pkg.Service/".
func validateMethodName(field, name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[0] != "" || parts[1] == "" {
		return fmt.Errorf("retrybudget: %s %q is neither \"/pkg.Service/Method\" nor \"/pkg.Service/\"", field, name)
	}
	return nil
}

// transportHeaders are set by grpc-go itself or mean something to it.
var transportHeaders = []string{"content-type", "user-agent", "te", "host", "connection"}

// validateHeaderName accepts what gRPC allows as the key of a text header that
// an application may set.
func validateHeaderName(field, name string) error {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}
	switch {
	case name == "" || strings.ContainsFunc(name, bad):
		return fmt.Errorf("retrybudget: %s %q is not a metadata key (a-z, 0-9, '-', '_', '.')", field, name)
	case strings.HasSuffix(name, "-bin"):
		return fmt.Errorf("retrybudget: %s %q ends in -bin, which gRPC keeps for binary values", field, name)
	case slices.Contains(transportHeaders, name) || strings.HasPrefix(name, "grpc-"):
		return fmt.Errorf("retrybudget: %s %q is reserved by gRPC", field, name)
	}
	return nil
}
