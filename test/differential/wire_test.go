package differential_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/stats"
)

// wire notes what comes in over a connection, one list for each attempt: how
// messages are compressed and how long they are. It is a stats handler for
// either end.
type wire struct {
	mu   sync.Mutex
	rpcs []*wireRPC
}

type wireRPC struct{ events []string }

type wireKey struct{}

// of returns what attempt i carried.
func (w *wire) of(i int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.rpcs[i].events)
}

// last returns what the last attempt carried, nil if there was none.
func (w *wire) last() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rpcs) == 0 {
		return nil
	}
	return slices.Clone(w.rpcs[len(w.rpcs)-1].events)
}

// TagRPC starts a list.
func (w *wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	rpc := new(wireRPC)
	w.rpcs = append(w.rpcs, rpc)
	return context.WithValue(ctx, wireKey{}, rpc)
}

// HandleRPC adds to it.
func (w *wire) HandleRPC(ctx context.Context, event stats.RPCStats) {
	rpc, ok := ctx.Value(wireKey{}).(*wireRPC)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(format string, args ...any) { rpc.events = append(rpc.events, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *stats.InHeader:
		add("headers, compression %q", e.Compression)
	case *stats.InPayload:
		add("message: %d bytes, %d compressed", e.Length, e.CompressedLength)
	}
}

// TagConn does nothing.
func (*wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (*wire) HandleConn(context.Context, stats.ConnStats) {}
