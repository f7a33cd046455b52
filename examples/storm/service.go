package main

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// service answers the calls and counts the attempts, which only the server
// can do the same way for every strategy.
type service struct {
	quickstartv1.UnimplementedInventoryServiceServer

	seed        uint64
	serviceTime time.Duration
	pool        *workerPool
	errors      atomic.Uint64 // share of random errors, as float bits

	mu       sync.Mutex
	attempts []int32     // of each call
	arrivals []time.Time // of each attempt
}

func newService(c config, calls int) *service {
	return &service{
		seed:        c.Seed,
		serviceTime: c.ServiceTime,
		pool:        newWorkerPool(c.Workers),
		attempts:    make([]int32, calls),
		arrivals:    make([]time.Time, 0, 2*calls),
	}
}

// enter puts the server into the condition of a phase.
func (s *service) enter(p phase, workers int) {
	s.errors.Store(math.Float64bits(p.Errors))
	s.pool.resize(int(math.Round(p.Capacity * float64(workers))))
}

// GetStock takes the number of the call from the request: each call asks for an
// article of its own.
func (s *service) GetStock(ctx context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	call, err := strconv.Atoi(req.GetSku())
	if err != nil || call < 0 || call >= len(s.attempts) {
		return nil, status.Errorf(codes.InvalidArgument, "storm: no such call: %q", req.GetSku())
	}
	fate := fateOf(s.seed, call, s.count(call))
	if fate.fails(math.Float64frombits(s.errors.Load())) {
		return nil, status.Error(codes.Unavailable, "storm: random error")
	}
	select {
	case <-s.pool.do(fate.took(s.serviceTime)):
		return &quickstartv1.GetStockResponse{Sku: req.GetSku()}, nil
	case <-ctx.Done():
		// The caller has given up; the pool will do the work all the same.
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// count notes an attempt and returns its number within the call, from 1.
func (s *service) count(call int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[call]++
	s.arrivals = append(s.arrivals, time.Now())
	return int(s.attempts[call])
}

// total is the number of attempts so far.
func (s *service) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals)
}
