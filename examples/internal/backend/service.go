// Package backend is a server whose capacity and failures the example programs
// set: what stands at the end of the calls that they make.
package backend

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// Config describes a [Service].
type Config struct {
	Seed        uint64        // of service times and errors
	Workers     int           // attempts that it works on at once in health
	ServiceTime time.Duration // mean time a worker spends on one attempt in health
	Calls       int           // how many there will be; their numbers are below it
}

// Condition is how the server is at a time.
type Condition struct {
	Workers float64 // share of the workers that work; 1 is all of them
	Slow    float64 // what the service time is multiplied by; 0 means 1
	Errors  float64 // share of the attempts answered UNAVAILABLE at once, without a worker
}

// Capacity is what the server can finish in this condition, as a share of what
// it can in health.
func (c Condition) Capacity() float64 {
	switch {
	case c.Errors >= 1:
		return 0
	case c.Slow == 0:
		return c.Workers
	default:
		return c.Workers / c.Slow
	}
}

// Service answers the calls and numbers the attempts of each.
type Service struct {
	quickstartv1.UnimplementedInventoryServiceServer

	cfg      Config
	pool     *Pool
	errors   atomic.Uint64  // Condition.Errors, as float bits
	attempts []atomic.Int32 // of each call
}

// NewService returns a healthy server.
func NewService(cfg Config) *Service {
	s := &Service{cfg: cfg, pool: NewPool(cfg.Workers), attempts: make([]atomic.Int32, cfg.Calls)}
	s.Enter(Condition{Workers: 1})
	return s
}

// Enter puts the server into a condition. Work that has begun goes on as it was.
func (s *Service) Enter(c Condition) {
	if c.Slow == 0 {
		c.Slow = 1
	}
	s.errors.Store(math.Float64bits(c.Errors))
	s.pool.Slow(c.Slow)
	s.pool.Resize(int(math.Round(c.Workers * float64(s.cfg.Workers))))
}

// GetStock takes the number of the call from the request: each call asks for an
// article of its own.
func (s *Service) GetStock(ctx context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	call, err := strconv.Atoi(req.GetSku())
	if err != nil || call < 0 || call >= len(s.attempts) {
		return nil, status.Errorf(codes.InvalidArgument, "backend: no such call: %q", req.GetSku())
	}
	fate := FateOf(s.cfg.Seed, call, int(s.attempts[call].Add(1)))
	if fate.Fails(math.Float64frombits(s.errors.Load())) {
		return nil, status.Error(codes.Unavailable, "backend: told to fail")
	}
	select {
	case <-s.pool.Do(fate.Took(s.cfg.ServiceTime)):
		return &quickstartv1.GetStockResponse{Sku: req.GetSku()}, nil
	case <-ctx.Done():
		// The caller has given up; the pool will do the work all the same.
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// Attempts is how many of a call have arrived.
func (s *Service) Attempts(call int) int { return int(s.attempts[call].Load()) }

// Close drops the queue; no work is started any more.
func (s *Service) Close() { s.pool.Close() }
