package retrybudget

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Mode is what a [Retrier] does with retries, for the whole of it.
type Mode uint8

// The modes.
const (
	// Enforce retries within the budget. The default.
	Enforce Mode = iota
	// Observe lets every retry through that the budget would refuse and only
	// reports the refusal: for measuring what Enforce would do.
	Observe
	// Off sends no retries, at once: calls under way end with their next failure
	// or wait, and errors are returned as they are. Deadlines of policies still
	// apply, and successes still fund the budgets.
	Off
)

// Retrier retries failed calls under budgets. One Retrier serves many client
// connections; unary calls and streams on all of them share its budgets, keyed
// by target string and method. It is safe for concurrent use and needs no
// closing: nothing of it outlives its calls.
//
// Make one with [New]; the zero value is not usable.
type Retrier struct {
	config atomic.Pointer[config]
	mark   grpc.CallOption // see mark
	start  time.Time       // what times count from
	// factoryFailed: a failure of a BudgetFactory was reported.
	factoryFailed atomic.Bool
	replayed      atomic.Int64 // bytes that streams hold for replay

	opts     []Option             // of New, but WithConfig
	updating sync.Mutex           // one Update at a time
	moving   atomic.Pointer[move] // the one that is under way
}

// New returns a Retrier with the given options, or an error that lists every
// invalid one by option, field and value. Without options it retries UNAVAILABLE
// and the like up to twice, within a budget of a tenth of each method's
// successful calls.
func New(opts ...Option) (*Retrier, error) {
	b, err := build(opts)
	if err != nil {
		return nil, err
	}
	if b.cfg.keys, err = newKeys(b.cfg.budget, b.maxKeys); err != nil {
		return nil, err
	}
	r := &Retrier{start: time.Now()}
	for _, o := range opts {
		if _, ok := o.(configOption); !ok {
			r.opts = append(r.opts, o)
		}
	}
	r.mark = &mark{r: r}
	r.config.Store(&b.cfg)
	return r, nil
}

// DialOptions returns the dial options that put the Retrier on a connection:
// its interceptors, chained in this place, and grpc.WithDisableRetry, so that a
// service config's native retryPolicy does not multiply the attempts.
// Interceptors given to grpc.NewClient before these options see calls, those
// given after them see attempts.
func (r *Retrier) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(r.unary(false)),
		grpc.WithChainStreamInterceptor(r.stream(false)),
		grpc.WithDisableRetry(),
	}
}

// UnaryClientInterceptor returns the interceptor for unary calls, for use as a
// plain dial option or in a chain of the application's own. Other than
// [Retrier.DialOptions] it leaves grpc-go's native retries as they are; a native
// retry policy on a method is reported to the [Observer] once.
func (r *Retrier) UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	return r.unary(true)
}

// StreamClientInterceptor returns the interceptor for streams of all four kinds;
// see [Retrier.UnaryClientInterceptor] for its use. A stream is retried by replay
// until its first message, or headers that the application asked for, reached the
// application; see the package documentation.
func (r *Retrier) StreamClientInterceptor() grpc.StreamClientInterceptor {
	return r.stream(true)
}

// StreamClientInterceptor is [New] and [Retrier.StreamClientInterceptor] in one.
// It panics on invalid options. It shares no budget with interceptors made by
// other calls; use one Retrier for the unary and the stream interceptor.
func StreamClientInterceptor(opts ...Option) grpc.StreamClientInterceptor {
	r, err := New(opts...)
	if err != nil {
		panic(err)
	}
	return r.StreamClientInterceptor()
}

// UnaryClientInterceptor is [New] and [Retrier.UnaryClientInterceptor] in one.
// It panics on invalid options, as regexp.MustCompile does. Interceptors made by
// two calls share no budget; use one Retrier where they should.
func UnaryClientInterceptor(opts ...Option) grpc.UnaryClientInterceptor {
	r, err := New(opts...)
	if err != nil {
		panic(err)
	}
	return r.UnaryClientInterceptor()
}

// SetMode switches the mode, for calls that start from now on; [Off] also stops
// the retries of calls under way. It returns an error for a value that is none
// of the modes.
func (r *Retrier) SetMode(m Mode) error {
	if m > Off {
		return fmt.Errorf("retrybudget: SetMode %d is not a known mode", m)
	}
	for {
		old := r.config.Load()
		if r.config.CompareAndSwap(old, old.withMode(m)) {
			return nil
		}
	}
}

// BudgetInfo is the state of one budget key.
type BudgetInfo struct {
	// Target and Method are the key; both are empty for the budget that all
	// names without room in the key table share.
	Target, Method string
	// Tokens is what retries could take now, Capacity the most there can be.
	Tokens, Capacity float64
}

// Budgets iterates over the keys seen so far, in no order. Budgets of the
// application's own that do not implement [LevelReporter] are left out; a budget
// that several keys share appears under each of them.
func (r *Retrier) Budgets() iter.Seq[BudgetInfo] {
	return func(yield func(BudgetInfo) bool) {
		keys := r.config.Load().keys
		show := func(n *node[*key]) bool {
			// An Update may have moved the tokens since.
			if now := r.config.Load().keys; now != keys {
				n = now.successor(n)
			}
			n.value.takeOver()
			tokens, capacity, ok := levelOf(n.value.budget)
			return !ok || yield(BudgetInfo{n.target, n.name, tokens, capacity})
		}
		more := true
		keys.each(func(n *node[*key]) bool {
			more = show(n)
			return more
		})
		if common := keys.common.Load(); more && common.used.Load() > 0 {
			show(common)
		}
	}
}
