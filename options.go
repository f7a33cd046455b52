package retrybudget

import (
	"errors"
	"fmt"
	"strings"
	"time"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// defaultMaxServerDelay is the longest wait a server may ask for.
const defaultMaxServerDelay = 30 * time.Second

// mostMaxKeys is the largest value of WithMaxKeys.
const mostMaxKeys = 1 << 20

// config is everything that New or Update was told, and the budgets made of it. A
// Retrier swaps it as a whole, so a call sees one configuration from its start to
// its end.
type config struct {
	mode                Mode
	code, file          source // policies of options, and of WithConfig
	builtin             variants
	resolver            bool // a policy of the resolver replaces builtin
	strict              bool // unknown idempotency counts as non-idempotent
	strictNonIdempotent bool // no exception for RESOURCE_EXHAUSTED
	classifier          Classifier
	success             func(CallInfo, error) bool
	observer            Observer // nil when there is none
	attemptHeader       string
	maxServerDelay      time.Duration
	replayCall          int // the most bytes that a stream may keep
	replayTotal         int // and all of them

	budget  BudgetFactory
	budgets []*retrybudgetv1.Budget // what a Config made budget of, empty otherwise
	keys    *table[*key]
	built   Mode // mode before SetMode
}

// Option configures a [Retrier] at construction.
type Option interface {
	apply(b *builder)
}

type optionFunc func(*builder)

func (f optionFunc) apply(b *builder) { f(b) }

// builder collects the options of one New and what is wrong with them.
type builder struct {
	cfg        config
	policy     *Policy // nil when there is none
	methods    map[string]Policy
	file       checkedConfig // of WithConfig
	configured bool          // there was one
	ownBudget  bool          // WithBudget sets it, and no Config can
	maxKeys    int
	errs       []error
}

func (b *builder) fail(err error) { b.errs = append(b.errs, err) }

// build applies the options and returns the builder with its configuration
// complete, or every error found.
func build(opts []Option) (*builder, error) {
	b := &builder{
		cfg: config{
			attemptHeader: attemptHeader, maxServerDelay: defaultMaxServerDelay,
			replayCall: defaultReplayPerCall, replayTotal: defaultReplayTotal,
			budget: PerMethod(TokenBucketConfig{}),
		},
		methods: map[string]Policy{},
		maxKeys: defaultMaxKeys,
	}
	for _, o := range opts {
		if c, ok := o.(configOption); ok {
			b.applyConfig(c.cfg)
		}
	}
	for i, o := range opts {
		if o == nil {
			b.fail(fmt.Errorf("retrybudget: option %d is nil", i))
			continue
		}
		o.apply(b)
	}
	b.compilePolicies()
	if b.ownBudget {
		b.cfg.budgets = nil
	}
	if b.cfg.built = b.cfg.mode; b.cfg.mode > Off {
		b.fail(fmt.Errorf("retrybudget: WithMode %d is not a known mode", b.cfg.mode))
	}
	return b, errors.Join(b.errs...)
}

// WithPolicy sets the policy of methods that no [WithMethodPolicy] names. It
// outranks all policies kept elsewhere; see [WithConfig]. The default is none,
// so that those apply, and without them the zero [Policy].
func WithPolicy(p Policy) Option {
	return optionFunc(func(b *builder) { b.policy = &p })
}

// WithMethodPolicy sets the policy of one method ("/pkg.Service/Method") or of
// all methods of a service ("/pkg.Service/"). Naming the same one twice is an
// error, and so is a method that a service does not have whose descriptor the
// program has. Other names are taken as they are.
func WithMethodPolicy(name string, p Policy) Option {
	return optionFunc(func(b *builder) {
		if err := validateMethodName("WithMethodPolicy name", name); err != nil {
			b.fail(err)
		} else if service, method := hasDescriptor(name); service && !method {
			b.fail(fmt.Errorf("retrybudget: WithMethodPolicy name %q is no method of that service", name))
		}
		if _, twice := b.methods[name]; twice {
			b.fail(fmt.Errorf("retrybudget: WithMethodPolicy names %q twice", name))
		}
		b.methods[name] = p
	})
}

// WithBudget sets who shares a budget and of what kind it is. The default is
// [PerMethod] of the zero [TokenBucketConfig]: capacity 20, 0.1 tokens per
// success, empty at the start.
func WithBudget(f BudgetFactory) Option {
	return optionFunc(func(b *builder) {
		if f == nil {
			b.fail(errors.New("retrybudget: WithBudget: nil BudgetFactory"))
		}
		b.cfg.budget, b.ownBudget = f, true
	})
}

// WithClassifier lets f decide which errors are retryable, in place of code
// lists and table.
func WithClassifier(f Classifier) Option {
	return optionFunc(func(b *builder) {
		if f == nil {
			b.fail(errors.New("retrybudget: WithClassifier: nil Classifier"))
		}
		b.cfg.classifier = f
	})
}

// WithSuccess makes answers other than OK fund the budget, such as NOT_FOUND of
// a lookup. f is asked about errors that are not retryable and reports whether
// the error is a success of the dependency; it must be safe for concurrent use.
// The error reaches the caller unchanged all the same. Default: only OK counts.
func WithSuccess(f func(call CallInfo, err error) bool) Option {
	return optionFunc(func(b *builder) {
		if f == nil {
			b.fail(errors.New("retrybudget: WithSuccess: nil function"))
		}
		b.cfg.success = f
	})
}

// WithStrictIdempotency makes methods of unknown idempotency count as
// non-idempotent. The default retries UNAVAILABLE on them.
func WithStrictIdempotency() Option {
	return optionFunc(func(b *builder) { b.cfg.strict = true })
}

// WithoutNonIdempotentRetries takes away the one exception for non-idempotent
// methods: a RESOURCE_EXHAUSTED whose server said when to come back is not
// retried on them either.
func WithoutNonIdempotentRetries() Option {
	return optionFunc(func(b *builder) { b.cfg.strictNonIdempotent = true })
}

// WithObserver adds an observer. Several are called in the order given.
func WithObserver(o Observer) Option {
	return optionFunc(func(b *builder) {
		switch {
		case o == nil:
			b.fail(errors.New("retrybudget: WithObserver: nil Observer"))
		case b.cfg.observer == nil:
			b.cfg.observer = o
		default:
			b.cfg.observer = observers{b.cfg.observer, o}
		}
	})
}

// WithAttemptHeader renames the metadata header that marks retries. The default
// is gRFC A6's grpc-previous-rpc-attempts.
func WithAttemptHeader(name string) Option {
	return optionFunc(func(b *builder) {
		b.cfg.attemptHeader = strings.ToLower(name)
		if b.cfg.attemptHeader == attemptHeader {
			return
		}
		if err := validateHeaderName("WithAttemptHeader", b.cfg.attemptHeader); err != nil {
			b.fail(err)
		}
	})
}

// WithMaxServerDelay sets the longest wait that a server may ask for, by
// pushback or RetryInfo. A longer one ends the call at once with
// [ReasonPushback]; it is never shortened. Default 30 s; must be positive.
func WithMaxServerDelay(d time.Duration) Option {
	return optionFunc(func(b *builder) {
		if d <= 0 {
			b.fail(fmt.Errorf("retrybudget: WithMaxServerDelay %v is not positive", d))
		}
		b.cfg.maxServerDelay = d
	})
}

// WithMaxKeys bounds the number of (target, method) pairs that state is kept
// for. When it is full, the least recently used pair whose budget holds no less
// than a new one would is dropped, so that being dropped never refills a budget;
// if there is none, new names share one common budget. Default 1,024; at least
// 1, at most 1,048,576.
func WithMaxKeys(n int) Option {
	return optionFunc(func(b *builder) {
		if n < 1 || n > mostMaxKeys {
			b.fail(fmt.Errorf("retrybudget: WithMaxKeys %d is not in 1..%d", n, mostMaxKeys))
		}
		b.maxKeys = n
	})
}

// WithReplayLimits bounds the bytes that streams keep of what the application
// sent, to send it again on a retry: perCall for one stream, total for all of the
// Retrier's together. A stream that would exceed a limit goes on but is not
// retried any more. grpc.MaxRetryRPCBufferSize overrides perCall for a call.
// Default 256 KiB and 16 MiB; 0 keeps nothing, so that streams are retried only
// until their first message was sent.
func WithReplayLimits(perCall, total int) Option {
	return optionFunc(func(b *builder) {
		if perCall < 0 || total < 0 {
			b.fail(fmt.Errorf("retrybudget: WithReplayLimits perCall %d or total %d is negative", perCall, total))
		}
		b.cfg.replayCall, b.cfg.replayTotal = perCall, total
	})
}

// WithMode sets the mode to start in. Default [Enforce].
func WithMode(m Mode) Option {
	return optionFunc(func(b *builder) { b.cfg.mode = m })
}
