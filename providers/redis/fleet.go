package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"weak"

	goredis "github.com/redis/go-redis/v9"

	"github.com/retrybudget/retrybudget"
)

// maxNames bounds the budgets that a Fleet tells apart, as the library bounds
// those of a Retrier: the method names that a proxy forwards are chosen by others.
const maxNames = 1024

// Fleet is one process's part in the budgets of a fleet. Make one with [New] for
// all Retriers of the process, give its [Fleet.Budget] to
// [retrybudget.WithBudget], and [Fleet.Close] it in the end. It is safe for
// concurrent use.
type Fleet struct {
	set    settings
	client goredis.UniversalClient
	id     string // of this process, in the buckets' lists of holders

	kick    chan struct{} // makes the goroutine look around; holds one
	landing chan *flight
	closing chan struct{}
	done    chan struct{} // closed when the goroutine has ended
	once    sync.Once
	ctx     context.Context // of all that is sent to Redis
	cancel  context.CancelCauseFunc
	err     error // of Close; written before done is closed

	mu     sync.Mutex // guards what follows
	closed bool
	names  map[name]weak.Pointer[budget]
	common *budget   // of all names without room
	woken  []*budget // that the goroutine does not know of yet

	loop  loop // the goroutine's
	stats stats
}

type name struct{ target, method string }

// New starts a fleet's part in this process: a goroutine that ends with Close. It
// returns an error that names the field and the value that it does not accept,
// and does not wait for Redis: until the first answer there is nothing in hand.
// The client stays the caller's, to be closed after the Fleet.
func New(client goredis.UniversalClient, cfg Config) (*Fleet, error) {
	if client == nil {
		return nil, errors.New("retrybudget: redis.New: the client is nil")
	}
	set, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		set: set, client: client, id: random(),
		kick: make(chan struct{}, 1), landing: make(chan *flight),
		closing: make(chan struct{}), done: make(chan struct{}),
		names: make(map[name]weak.Pointer[budget]),
	}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	f.common = f.newBudget("", "")
	go f.run()
	return f, nil
}

// Budget is the [retrybudget.BudgetFactory] of the fleet. Each (target, method)
// has one budget in this process; several Retriers share it. To share one among
// all methods of a target, leave the method out:
//
//	func(target, _ string) (retrybudget.Budget, error) { return fleet.Budget(target, "") }
//
// Two empty strings, and names that come when 1,024 others are in use, get one
// common budget. After Close it returns an error.
func (f *Fleet) Budget(target, method string) (retrybudget.Budget, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.New("retrybudget: redis.Fleet.Budget: the Fleet is closed")
	}
	n := name{target, method}
	if b := f.names[n].Value(); b != nil {
		return b, nil
	}
	if n == (name{}) || len(f.names) >= maxNames {
		return f.common, nil
	}
	b := f.newBudget(target, method)
	w := weak.Make(b)
	f.names[n] = w
	// What nobody holds any more, neither a Retrier nor the goroutine, is not
	// kept here either.
	runtime.AddCleanup(b, f.drop, dead{n, w})
	return b, nil
}

type dead struct {
	name name
	was  weak.Pointer[budget]
}

func (f *Fleet) drop(d dead) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names[d.name] == d.was {
		delete(f.names, d.name)
	}
}

func (f *Fleet) newBudget(target, method string) *budget {
	return &budget{
		fleet: f, set: &f.set,
		low: max(milli, f.set.lease/2),
		key: keyOf(f.set.Prefix, target, method),
	}
}

// Close gives back what is in hand, reports what is unreported, and ends the
// Fleet; its budgets grant nothing more. It returns an error if not all of that
// reached Redis, or when ctx ends first; what did not is lost, and nothing goes
// on in the background but what the client takes to notice. Calling it again
// waits for the same end.
func (f *Fleet) Close(ctx context.Context) error {
	f.once.Do(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closed = true
		close(f.closing)
	})
	select {
	case <-f.done:
		return f.err
	default:
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		f.cancel(context.Cause(ctx))
		<-f.done // which is at once
		return f.err
	}
}

// wake hands a budget to the goroutine, which does not look after those that are
// not used.
func (f *Fleet) wake(b *budget) {
	if !b.awake.CompareAndSwap(false, true) {
		return
	}
	f.mu.Lock()
	if !f.closed {
		f.woken = append(f.woken, b)
	}
	f.mu.Unlock()
	f.nudge()
}

// nudge makes the goroutine look around soon.
func (f *Fleet) nudge() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// random returns a name that no other process has.
func random() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }
