package retrybudget

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Without lists or a classifier of the user's, this table says which failures
// are retried:
//
//	failure                                         idempotent  unknown  non-idempotent
//	UNAVAILABLE                                     retry       retry    no
//	RESOURCE_EXHAUSTED with RetryInfo or pushback   retry       retry    retry
//	RESOURCE_EXHAUSTED without guidance             no          no       no
//	attempt timeout                                 retry       no       no
//	DEADLINE_EXCEEDED sent by the server, ABORTED   retry       no       no
//	everything else                                 no          no       no
//
// A server that answers RESOURCE_EXHAUSTED and says when to come back refused
// the call before it worked on it, so even a non-idempotent call is safe to
// repeat; one that does not say may mean a quota that stays exhausted for hours.

// Verdict is what a [Classifier] says about a failure.
type Verdict uint8

// The verdicts of a [Classifier].
const (
	// ByDefault leaves the decision to the policy's code lists, or to the
	// library's table where there are none.
	ByDefault Verdict = iota
	// Retry calls the failure retryable. Guidance, attempts, deadline and
	// budget still decide whether a retry follows.
	Retry
	// NoRetry returns the error to the caller as it is.
	NoRetry
)

// Classifier decides whether the error of a failed attempt is retryable, in
// place of code lists and table. It sees the whole error, details included. It
// is not asked about errors that can never succeed (a message over a size
// limit, say), about errors marked with [Final], nor once the caller's context
// has ended. It must be safe for concurrent use.
type Classifier func(call CallInfo, err error) Verdict

// CallInfo says which call, and which attempt of it, a function of the user's
// is asked about.
type CallInfo struct {
	// Context is the call's context, with the deadline of Policy.Timeout if
	// there is one.
	Context context.Context //nolint:containedctx // passed down a single call, never stored beyond it
	// Method is the full method name, "/pkg.Service/Method".
	Method string
	// Target is the connection's target string, "" without a connection.
	Target string
	// Attempt is the number of the attempt in question, counted from 1.
	Attempt int
	// Idempotency is what is known of the method for this call.
	Idempotency Idempotency
}

// codeSet is a set of status codes. Codes above 31 do not occur in it: New
// refuses them.
type codeSet uint32

func (s codeSet) has(c codes.Code) bool { return c < 32 && s&(1<<c) != 0 }

// maxCode is the highest code of the gRPC specification.
const maxCode = codes.Unauthenticated

func newCodeSet(field string, list []codes.Code) (codeSet, error) {
	var s codeSet
	for _, c := range list {
		switch {
		case c == codes.OK:
			return 0, fmt.Errorf("retrybudget: %s contains OK: a call that succeeded is not retried", field)
		case c > maxCode:
			return 0, fmt.Errorf("retrybudget: %s contains %d, which is not a gRPC code", field, uint32(c))
		}
		s |= 1 << c
	}
	return s, nil
}

// The sets that the table is made of.
const (
	retriedUnlessNonIdempotent codeSet = 1 << codes.Unavailable
	retriedIfIdempotent        codeSet = 1<<codes.DeadlineExceeded | 1<<codes.Aborted
	retriedIfTold              codeSet = 1 << codes.ResourceExhausted
)

// resolveCodes applies the code lists, or the table at the top of this file. An
// attempt timeout counts as DEADLINE_EXCEEDED.
func (s *settings) resolveCodes() {
	switch {
	case s.level == NonIdempotent && s.cfg.strictNonIdempotent:
		s.retried, s.retriedWhenTold = 0, 0
	case s.level == NonIdempotent:
		s.retried, s.retriedWhenTold = 0, retriedIfTold
	case s.hasCodes:
		s.retried, s.retriedWhenTold = s.codes, s.codes
	default:
		s.retried, s.retriedWhenTold = retriedUnlessNonIdempotent, retriedUnlessNonIdempotent|retriedIfTold
		if s.level == Idempotent {
			s.retried |= retriedIfIdempotent
			s.retriedWhenTold |= retriedIfIdempotent
		}
	}
	if s.level == Idempotent {
		s.retried |= s.idempotentCodes
		s.retriedWhenTold |= s.idempotentCodes
	}
}
