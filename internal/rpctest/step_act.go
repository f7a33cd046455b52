package rpctest

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
)

// Do runs f before the next step.
func Do(f func(), next Step) Step {
	return func(ctx context.Context, stream grpc.ServerStream) error {
		f()
		return next(ctx, stream)
	}
}

// Cuttable is the way to a server that a test can cut under a client's feet.
type Cuttable struct {
	l *Listener

	mu   sync.Mutex
	conn net.Conn
	down bool
}

// DialCuttable is Dial over a connection that a test can cut.
func (l *Listener) DialCuttable(t testing.TB, opts ...grpc.DialOption) (*grpc.ClientConn, *Cuttable) {
	t.Helper()
	c := &Cuttable{l: l}
	return l.Dial(t, append(opts, grpc.WithContextDialer(c.dial))...), c
}

func (c *Cuttable) dial(ctx context.Context, _ string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return nil, &net.OpError{Op: "dial", Net: "bufconn", Err: net.ErrClosed}
	}
	conn, err := c.l.l.DialContext(ctx)
	c.conn = conn
	return conn, err
}

// Cut closes the client's connection; the client may dial again.
func (c *Cuttable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Down makes every dial from now on fail, as if nobody listened.
func (c *Cuttable) Down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = true
}
