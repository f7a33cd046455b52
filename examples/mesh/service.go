package main

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// counter notes when attempts arrive at a server. It is the first thing they
// meet there, so it counts also those that are refused.
type counter struct {
	mu       sync.Mutex
	arrivals []time.Time
}

func (n *counter) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	n.mu.Lock()
	n.arrivals = append(n.arrivals, time.Now())
	n.mu.Unlock()
	return handler(ctx, req)
}

// since returns the arrivals from a moment on, as times after it.
func (n *counter) since(moment time.Time) []time.Duration {
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

func (n *counter) total() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.arrivals)
}

// relay is A and B: it asks the next service and hands on the answer.
type relay struct {
	quickstartv1.UnimplementedInventoryServiceServer
	next quickstartv1.InventoryServiceClient
}

func (r *relay) GetStock(ctx context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	return r.next.GetStock(ctx, req)
}

// backend is C.
type backend struct {
	quickstartv1.UnimplementedInventoryServiceServer

	seed        uint64
	workers     int
	serviceTime time.Duration
	pool        *workerPool
	errors      atomic.Uint64 // share of attempts that fail, as float bits

	mu       sync.Mutex
	attempts []int32 // of each user call
}

func newBackend(c config, calls int) *backend {
	return &backend{
		seed:        c.Seed,
		workers:     c.Workers,
		serviceTime: c.ServiceTime,
		pool:        newWorkerPool(c.Workers),
		attempts:    make([]int32, calls),
	}
}

// enter puts C into the condition of a phase.
func (b *backend) enter(p phase) {
	b.errors.Store(math.Float64bits(p.Errors))
	b.pool.resize(int(math.Round(p.Capacity * float64(b.workers))))
}

// GetStock takes the number of the user call from the request: each asks for an
// article of its own.
func (b *backend) GetStock(ctx context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	call, err := strconv.Atoi(req.GetSku())
	if err != nil || call < 0 || call >= len(b.attempts) {
		return nil, status.Errorf(codes.InvalidArgument, "mesh: no such call: %q", req.GetSku())
	}
	fate := fateOf(b.seed, call, b.attempt(call))
	if fate.fails(math.Float64frombits(b.errors.Load())) {
		return nil, status.Error(codes.Unavailable, "mesh: C does not answer")
	}
	select {
	case <-b.pool.do(fate.took(b.serviceTime)):
		return &quickstartv1.GetStockResponse{Sku: req.GetSku()}, nil
	case <-ctx.Done():
		// The caller has given up; the pool will do the work all the same.
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// attempt returns the number of a new attempt within its user call, from 1.
func (b *backend) attempt(call int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[call]++
	return int(b.attempts[call])
}
