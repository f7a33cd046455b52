package main

import (
	"context"
	"errors"
	"net"
	"sync"
)

// link is a way to another service that can be cut: its connections break, and
// no new ones come about.
type link struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

var errCut = errors.New("mesh: no way there")

func (l *link) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		conn.Close()
		return nil, errCut
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

// set cuts the link or mends it.
func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for _, conn := range l.conns {
			conn.Close()
		}
		l.conns = nil
	}
}
