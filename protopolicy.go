package retrybudget

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/grpc/codes"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// policy converts a Policy at path. nil is the zero policy.
func (c *checker) policy(path string, m *retrybudgetv1.Policy) Policy {
	if m == nil {
		return Policy{}
	}
	return Policy{
		MaxAttempts:       c.count(path+".max_attempts", m.MaxAttempts, math.MaxInt32),
		Backoff:           c.backoff(path, m),
		RetryableCodes:    c.codes(path+".retryable_codes", m.GetRetryableCodes()),
		IdempotentCodes:   c.codes(path+".idempotent_codes", m.GetIdempotentCodes()),
		Idempotency:       c.idempotency(path+".idempotency", m.GetIdempotency()),
		IdempotencyKey:    c.idempotencyKey(path+".idempotency_key", m.GetIdempotencyKey()),
		PerAttemptTimeout: c.duration(path+".per_attempt_timeout", m.GetPerAttemptTimeout()),
		Timeout:           c.duration(path+".timeout", m.GetTimeout()),
	}
}

func (c *checker) backoff(path string, m *retrybudgetv1.Policy) Backoff {
	switch b := m.GetBackoff().(type) {
	case *retrybudgetv1.Policy_ExponentialBackoff:
		return c.exponential(path+".exponential_backoff", b.ExponentialBackoff)
	case *retrybudgetv1.Policy_ConstantBackoff:
		return ConstantBackoff(c.duration(path+".constant_backoff", b.ConstantBackoff))
	default:
		return nil
	}
}

func (c *checker) exponential(path string, m *retrybudgetv1.ExponentialBackoff) Backoff {
	b := ExponentialBackoff{
		Initial: c.positive(path+".initial", m.GetInitial()),
		Max:     c.positive(path+".max", m.GetMax()),
		Jitter:  c.jitter(path+".jitter", m.GetJitter()),
	}
	if m != nil && m.Multiplier != nil {
		b.Multiplier = *m.Multiplier
		if !validMultiplier(b.Multiplier) {
			c.fail(path+".multiplier", "%v is not in 1..%d", b.Multiplier, maxMultiplier)
		}
	}
	if initial := b.withDefaults().Initial; b.Max != 0 && b.Max < initial {
		c.fail(path+".max", "%v is below initial %v", b.Max, initial)
	}
	return b
}

func (c *checker) jitter(path string, j retrybudgetv1.Jitter) Jitter {
	switch j {
	case retrybudgetv1.Jitter_JITTER_UNSPECIFIED, retrybudgetv1.Jitter_JITTER_FULL:
		return JitterFull
	case retrybudgetv1.Jitter_JITTER_NONE:
		return JitterNone
	case retrybudgetv1.Jitter_JITTER_A6:
		return JitterA6
	case retrybudgetv1.Jitter_JITTER_EQUAL:
		return JitterEqual
	case retrybudgetv1.Jitter_JITTER_DECORRELATED:
		return JitterDecorrelated
	default:
		c.fail(path, "%d is not a known kind", j)
		return JitterFull
	}
}

func (c *checker) idempotency(path string, i retrybudgetv1.Idempotency) Idempotency {
	switch i {
	case retrybudgetv1.Idempotency_IDEMPOTENCY_UNSPECIFIED:
		return IdempotencyUnknown
	case retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT:
		return Idempotent
	case retrybudgetv1.Idempotency_IDEMPOTENCY_NON_IDEMPOTENT:
		return NonIdempotent
	default:
		c.fail(path, "%d is not a known level", i)
		return IdempotencyUnknown
	}
}

func (c *checker) idempotencyKey(path, name string) string {
	name = strings.ToLower(name)
	switch name {
	case "":
	case c.attemptHeader:
		c.fail(path, "%q is the attempt header", name)
	default:
		c.check(path, validateHeaderName(path, name))
	}
	return name
}

// codes returns the codes of a list that are valid, nil for an empty one.
func (c *checker) codes(path string, list []retrybudgetv1.Code) []codes.Code {
	var all []codes.Code
	for i, code := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case code == retrybudgetv1.Code_CODE_UNSPECIFIED:
			c.fail(at, "0 is OK, and a call that succeeded is not retried")
		case code < 0 || codes.Code(code) > maxCode:
			c.fail(at, "%d is not a gRPC code", code)
		default:
			all = append(all, codes.Code(code))
		}
	}
	return all
}
