package loopback

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Counter notes when attempts arrive at a server, which only the server can do
// in the same way for every strategy. The zero value is ready.
type Counter struct {
	mu       sync.Mutex
	arrivals []time.Time
}

// Note notes that an attempt arrives now.
func (n *Counter) Note() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arrivals = append(n.arrivals, time.Now())
}

// Total is the number of attempts so far.
func (n *Counter) Total() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.arrivals)
}

// Since returns the arrivals from a moment on, as times after it.
func (n *Counter) Since(moment time.Time) []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	var after []time.Duration
	for _, at := range n.arrivals {
		if d := at.Sub(moment); d >= 0 {
			after = append(after, d)
		}
	}
	return after
}

func (n *Counter) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	n.Note()
	return handler(ctx, req)
}
