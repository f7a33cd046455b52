package retrybudget

import (
	"fmt"
	"sync/atomic"
)

// The limits of [ThrottleConfig].
const (
	// minThrottleTokens: with 1 or 2 tokens the first failure already leaves no
	// more than half of them, which is when gRFC A6 stops retries.
	minThrottleTokens = 3
	maxThrottleTokens = 1000
	maxTokenRatio     = 1000
)

// ThrottleConfig describes a [Throttle]. As in gRFC A6, both fields are
// required: the zero value is refused.
type ThrottleConfig struct {
	// MaxTokens is where the token count starts and the most it can be. From 3
	// to 1000: gRFC A6 also allows 1 and 2, with which no retry is ever granted.
	MaxTokens int
	// TokenRatio is what a success adds to the token count. It must be a whole
	// number of thousandths (gRFC A6 ignores further decimals), from 0.001 to
	// 1000, which fills the largest budget at once.
	TokenRatio float64
}

// Throttle is a [Budget] that does what gRFC A6 calls retryThrottling: a token
// count starts at MaxTokens, each failure subtracts 1, each success adds
// TokenRatio, and retries are made while the count is above half of MaxTokens.
//
// A failure is an attempt that failed with a retryable code or whose answer
// forbids a retry; a success is an attempt that ended OK, a retry included. So
// it limits retries by the share of failures, and spends nothing on a retry that
// is granted.
//
// gRFC A6 keeps one for each server name: [PerTarget]. Unlike grpc-go's own,
// which belongs to a connection and starts full again with each service config
// that the resolver delivers, it is shared by whatever connections its
// [BudgetFactory] gives it to, and nothing ever refills it but successes.
//
// Make one with [NewThrottle]; the zero value grants nothing. It is safe for
// concurrent use: a success is one atomic operation, or one load when the count
// is at its maximum.
type Throttle struct {
	// count is alone on its cache line, as TokenBucket's successes.
	count      atomic.Int64
	maxTokens  int64
	tokenRatio int64
	_          [40]byte
}

var (
	_ Budget        = (*Throttle)(nil)
	_ LevelReporter = (*Throttle)(nil)
	_ BudgetConfig  = ThrottleConfig{}
)

// NewThrottle returns a throttle as cfg describes it, or an error that names the
// field and the value that it does not accept.
func NewThrottle(cfg ThrottleConfig) (*Throttle, error) {
	switch {
	case cfg.MaxTokens == 1 || cfg.MaxTokens == 2:
		return nil, fmt.Errorf("retrybudget: ThrottleConfig.MaxTokens %d can never grant a retry: one failure leaves no more than half of it; the least is %d", cfg.MaxTokens, minThrottleTokens)
	case cfg.MaxTokens < 1 || cfg.MaxTokens > maxThrottleTokens:
		return nil, fmt.Errorf("retrybudget: ThrottleConfig.MaxTokens %d is not in %d..%d", cfg.MaxTokens, minThrottleTokens, maxThrottleTokens)
	}
	ratio, err := inThousandths(cfg.TokenRatio, maxTokenRatio)
	if err != nil {
		return nil, fmt.Errorf("retrybudget: ThrottleConfig.TokenRatio %w", err)
	}
	t := &Throttle{maxTokens: int64(cfg.MaxTokens) * milli, tokenRatio: ratio}
	t.count.Store(t.maxTokens)
	return t, nil
}

// NewBudget returns [NewThrottle] of the configuration.
func (cfg ThrottleConfig) NewBudget() (Budget, error) {
	t, err := NewThrottle(cfg)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// RecordSuccess adds the ratio, up to the maximum.
func (t *Throttle) RecordSuccess() { t.add(t.tokenRatio) }

// RecordFailure subtracts one token, down to zero.
func (t *Throttle) RecordFailure(Cause) { t.add(-milli) }

// TryTake reports whether the count is above half of the maximum. It takes
// nothing: the failure has been paid for by RecordFailure.
func (t *Throttle) TryTake(Cause) bool { return t.count.Load() > t.maxTokens/2 }

// Settle adds the ratio for a retry that succeeded.
func (t *Throttle) Settle(_ Cause, o Outcome) {
	if o == Succeeded {
		t.add(t.tokenRatio)
	}
}

// Level returns the token count and its maximum. Retries are granted while the
// first is more than half of the second.
func (t *Throttle) Level() (tokens, capacity float64) {
	return float64(t.count.Load()) / milli, float64(t.maxTokens) / milli
}

// add changes the count by delta, within its limits.
func (t *Throttle) add(delta int64) {
	for {
		count := t.count.Load()
		next := min(max(count+delta, 0), t.maxTokens)
		if next == count || t.count.CompareAndSwap(count, next) {
			return
		}
	}
}
