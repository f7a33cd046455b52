package redis_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// wire stands between a client and the model, in place of a network, and breaks
// when it is told to. It goes in as a hook of the client.
type wire struct {
	model *model
	// forgets makes the server say for one round trip that it does not know the
	// script.
	forgets atomic.Bool

	roundTrips, requests atomic.Int64

	mu    sync.Mutex    // guards what follows
	fault fault         // of each round trip
	only  string        // with this key in it; "" for all
	delay time.Duration // each way
	deaf  bool          // it does not end with the context
	stall time.Duration // how much too late stalls is
}

func newWire() *wire {
	return &wire{model: newModel(new(atomic.Int64)), delay: time.Millisecond}
}

func (w *wire) set(f fault) { w.change(func() { w.fault = f }) }

func (w *wire) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

type fault int

const (
	none     fault = iota
	refused        // nothing arrives
	cut            // the requests arrive, the answers do not
	hangs          // nothing arrives, and nobody says so
	stalls         // the requests arrive only after their caller has given up
	nonsense       // the answers are not the script's
)

var errWire = errors.New("the wire is broken")

func (w *wire) DialHook(goredis.DialHook) goredis.DialHook               { return nil }
func (w *wire) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

func (w *wire) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		w.roundTrips.Add(1)
		err := w.pass(ctx, cmds)
		for _, cmd := range cmds {
			if err != nil {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (w *wire) pass(ctx context.Context, cmds []goredis.Cmder) error {
	w.mu.Lock()
	f, delay, deaf, stall := w.fault, w.delay, w.deaf, w.stall
	if w.only != "" && !slices.ContainsFunc(cmds, func(cmd goredis.Cmder) bool { return callOf(cmd.Args()).key == w.only }) {
		f = none
	}
	w.mu.Unlock()
	switch f {
	case refused:
		return errWire
	case hangs, stalls:
		<-ctx.Done()
		<-time.After(stall)
	default:
		<-time.After(delay)
	}
	if f == hangs {
		return ctx.Err()
	}
	if w.forgets.CompareAndSwap(true, false) {
		for _, cmd := range cmds {
			cmd.SetErr(proto("NOSCRIPT No matching script"))
		}
		return cmds[0].Err()
	}
	for _, cmd := range cmds {
		w.requests.Add(1)
		value := any(w.model.do(callOf(cmd.Args())))
		if f == nonsense {
			value = garbage()
		}
		cmd.(interface{ SetVal(any) }).SetVal(value) //nolint:errcheck // a panic fails the test
	}
	<-time.After(delay)
	switch {
	case f == cut:
		return errWire
	case deaf:
		return nil
	default:
		return ctx.Err()
	}
}

// proto is an error that Redis answered with.
type proto string

func (e proto) Error() string { return string(e) }
func (proto) RedisError()     {}

func garbage() any {
	return [...]any{
		nil, "OK", int64(7),
		[]any{},
		[]any{"ok", "e", int64(1), int64(2), int64(3)},
		[]any{"ok", "e", int64(1), int64(1 << 60), int64(0), int64(1)},
		[]any{"ok", "e", int64(1), int64(0), int64(1 << 60), int64(1)},
		[]any{"ok", "e", int64(1), int64(0), int64(-1000), int64(1)},
		[]any{"ok", "", int64(1), int64(0), int64(0), int64(1)},
		[]any{"fine", "e", int64(1), int64(0), int64(0), int64(1)},
	}[rand.N(10)]
}

// client returns a client whose network is the wire.
func (w *wire) client(t *testing.T) goredis.UniversalClient {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:0"})
	c.AddHook(w)
	t.Cleanup(func() { c.Close() })
	return c
}

// fleet starts a Fleet on the wire.
func (w *wire) fleet(t *testing.T, cfg redis.Config) *redis.Fleet {
	t.Helper()
	f, err := redis.New(w.client(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		f.Close(ctx) // most tests leave the wire broken
	})
	return f
}

// budget returns the budget that most tests use.
func budgetOf(t *testing.T, f *redis.Fleet) retrybudget.Budget {
	t.Helper()
	b, err := f.Budget("target", "/service/method")
	require.NoError(t, err)
	return b
}

// take takes as many retries as there are, up to a number.
func take(b retrybudget.Budget, most int) (n int) {
	for n < most && b.TryTake(retrybudget.Cause{}) {
		n++
	}
	return n
}

func succeed(b retrybudget.Budget, n int) {
	for range n {
		b.RecordSuccess()
	}
}
