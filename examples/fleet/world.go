package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
	"github.com/retrybudget/retrybudget/examples/internal/loopback"
	"github.com/retrybudget/retrybudget/examples/internal/openloop"
)

// world is one strategy's own server and client processes.
type world struct {
	strategy  strategy
	service   *backend.Service
	arrivals  loopback.Counter // attempts
	retries   loopback.Counter // those of them that say so
	server    *grpc.Server
	processes []*process
	first     []int // number of each process's first call, and of all calls

	seen []outcomes // of each process
	errs []error
}

// newWorld starts a server and the client processes.
func newWorld(ctx context.Context, c config, index int, redisAddress, prefix string) (*world, error) {
	w := &world{strategy: strategies[index], first: []int{0}}
	for i := range c.Processes {
		w.first = append(w.first, w.first[i]+len(c.arrivals(i)))
	}
	w.service = backend.NewService(backend.Config{
		Seed: c.Seed, Workers: c.Workers, ServiceTime: c.ServiceTime, Calls: w.first[c.Processes],
	})
	server, address, err := loopback.Serve(w.service, &w.arrivals, grpc.ChainUnaryInterceptor(w.noteRetry))
	if err != nil {
		return nil, err
	}
	w.server = server
	for i := range c.Processes {
		p, err := startProcess(ctx, job{
			Config: c, Strategy: index, Process: i, First: w.first[i],
			Server: address, Redis: redisAddress, Prefix: prefix,
		})
		if err != nil {
			w.close()
			return nil, fmt.Errorf("%s: %w", w.strategy.Name, err)
		}
		w.processes = append(w.processes, p)
	}
	w.seen, w.errs = make([]outcomes, c.Processes), make([]error, c.Processes)
	return w, nil
}

// noteRetry reads the header that retries carry.
func (w *world) noteRetry(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if metadata.ValueFromIncomingContext(ctx, "grpc-previous-rpc-attempts") != nil {
		w.retries.Note()
	}
	return handler(ctx, req)
}

// play returns when all processes have told what they saw.
func (w *world) play(ctx context.Context, c config, start time.Time) {
	var playing sync.WaitGroup
	for i, p := range w.processes {
		playing.Go(func() { w.seen[i], w.errs[i] = p.play(start) })
	}
	playing.Go(func() {
		for _, change := range []struct {
			at    time.Duration
			share float64
		}{{c.Health, c.Capacity / 100}, {c.Health + c.Fault, 1}} {
			if openloop.WaitUntil(ctx, start.Add(change.at)) {
				w.service.Enter(backend.Condition{Workers: change.share})
			}
		}
	})
	playing.Wait()
}

func (w *world) close() {
	for _, p := range w.processes {
		p.end()
	}
	w.service.Close()
	w.server.Stop()
}
