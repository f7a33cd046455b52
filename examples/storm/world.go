package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
	"github.com/retrybudget/retrybudget/examples/internal/loopback"
	"github.com/retrybudget/retrybudget/examples/internal/openloop"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// world is one strategy's own server and clients, joined by loopback TCP.
type world struct {
	strategy strategy
	service  *backend.Service
	arrivals loopback.Counter
	server   *grpc.Server
	conns    []*grpc.ClientConn
	clients  []quickstartv1.InventoryServiceClient

	watched *watched     // with -serve, of the strategies of this project
	good    atomic.Int64 // calls that ended OK so far

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
		service:  backend.NewService(backend.Config{Seed: c.Seed, Workers: c.Workers, ServiceTime: c.ServiceTime, Calls: calls}),
		outcomes: make([]outcome, calls),
	}
	if c.Serve != "" && s.retrier != nil {
		w.watched = newWatched()
	}
	server, address, err := loopback.Serve(w.service, &w.arrivals)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	w.server = server
	for range c.Clients {
		if err := w.connect(ctx, c, address); err != nil {
			w.close()
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return w, nil
}

func (w *world) connect(ctx context.Context, c config, address string) error {
	options, err := w.strategy.options(c, w.watched)
	if err != nil {
		return err
	}
	conn, err := loopback.Connect(ctx, address, options...)
	if err != nil {
		return err
	}
	w.conns = append(w.conns, conn)
	w.clients = append(w.clients, quickstartv1.NewInventoryServiceClient(conn))
	return nil
}

// play lives the story from its start to its end, or until ctx ends, and
// returns when every call that was started has ended.
func (w *world) play(ctx context.Context, c config, st story, calls []arrival, start time.Time) {
	w.service.Enter(st.Phases[0].Condition)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		for _, p := range st.Phases[1:] {
			if !openloop.WaitUntil(ctx, start.Add(p.Start)) {
				return
			}
			w.service.Enter(p.Condition)
		}
	})
	for i, a := range calls {
		if !openloop.WaitUntil(ctx, start.Add(a.At)) {
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
	if o.ok {
		w.good.Add(1)
	}
	o.done = o.ok || ctx.Err() == nil
	w.outcomes[number] = o
}

func (w *world) close() {
	for _, conn := range w.conns {
		conn.Close()
	}
	w.service.Close()
	w.server.Stop()
}
