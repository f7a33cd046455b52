package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// world is one strategy's own server and clients, joined by loopback TCP.
type world struct {
	strategy strategy
	service  *service
	server   *grpc.Server
	conns    []*grpc.ClientConn
	clients  []quickstartv1.InventoryServiceClient

	outcomes []outcome // of each call; written once, by the call's own goroutine
}

// outcome is what the caller of one call saw.
type outcome struct {
	done    bool // false also for a call that an interrupt cut off
	ok      bool
	started time.Time
	ended   time.Time
	late    time.Duration // how long after its moment the call was really started
}

// newWorld starts a server, connects the clients and waits until every
// connection stands.
func newWorld(ctx context.Context, c config, s strategy, calls int) (*world, error) {
	w := &world{
		strategy: s,
		service:  newService(c, calls),
		server:   grpc.NewServer(grpc.WaitForHandlers(true)), // after close nothing is counted any more
		outcomes: make([]outcome, calls),
	}
	quickstartv1.RegisterInventoryServiceServer(w.server, w.service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	go w.server.Serve(listener) //nolint:errcheck // ends with close; a broken listener shows in connect
	for range c.Clients {
		if err := w.connect(ctx, c, listener.Addr().String()); err != nil {
			w.close()
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return w, nil
}

func (w *world) connect(ctx context.Context, c config, address string) error {
	options, err := w.strategy.dial(c)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return err
	}
	w.conns = append(w.conns, conn)
	w.clients = append(w.clients, quickstartv1.NewInventoryServiceClient(conn))
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("connecting to %s: %w", address, ctx.Err())
		}
	}
	return nil
}

// play lives the story from its start to its end, or until ctx ends, and
// returns when every call that was started has ended.
func (w *world) play(ctx context.Context, c config, st story, calls []arrival, start time.Time) {
	w.service.enter(st.Phases[0], c.Workers)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for _, p := range st.Phases[1:] {
			if !waitUntil(ctx, start.Add(p.Start)) {
				return
			}
			w.service.enter(p, c.Workers)
		}
	})
	for i, a := range calls {
		if !waitUntil(ctx, start.Add(a.At)) {
			return
		}
		running.Go(func() { w.call(ctx, c, i, a, start) })
	}
}

func (w *world) call(ctx context.Context, c config, number int, a arrival, start time.Time) {
	o := outcome{started: time.Now()}
	o.late = o.started.Sub(start.Add(a.At))
	deadline, cancel := context.WithTimeout(ctx, c.Deadline)
	defer cancel()
	_, err := w.clients[a.Client].GetStock(deadline, &quickstartv1.GetStockRequest{Sku: strconv.Itoa(number)})
	o.ended = time.Now()
	o.ok = err == nil
	o.done = o.ok || ctx.Err() == nil
	w.outcomes[number] = o
}

func (w *world) close() {
	for _, conn := range w.conns {
		conn.Close()
	}
	w.service.pool.close()
	w.server.Stop()
}

// waitUntil returns false if ctx ended first.
func waitUntil(ctx context.Context, moment time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	d := time.Until(moment)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
