package retrybudget

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

type slotKey struct{}

// slot collects, while a handler runs, what is to travel back with its answer.
// The handler's goroutines and the calls they make share it.
type slot struct {
	attempt   int         // the incoming attempt's number
	exhausted atomic.Bool // a retry further down was refused

	mu    sync.Mutex
	told  bool // delay or stop were set
	stop  bool
	delay time.Duration
}

func slotFrom(ctx context.Context) *slot {
	s, _ := ctx.Value(slotKey{}).(*slot)
	return s
}

// noteExhausted marks the answer of the handler that ctx comes from, if it comes
// from one.
func noteExhausted(ctx context.Context) {
	if s := slotFrom(ctx); s != nil {
		s.exhausted.Store(true)
	}
}

// trailer returns what the answer err carries, nil for nothing. There is never
// more than one pushback value in it, because clients take two for a veto.
func (s *slot) trailer(cfg *server, err error) metadata.MD {
	if err == nil {
		return nil
	}
	exhausted := s.exhausted.Load() && cfg.hinted.has(statusOf(err).Code())
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := s.stop || exhausted && cfg.pushback
	if !exhausted && !stop && !s.told {
		return nil
	}
	md := metadata.MD{}
	if exhausted && !cfg.pushback {
		md.Set(exhaustedTrailer, "1")
	}
	switch {
	case stop:
		md.Set(pushbackTrailer, "-1")
	case s.told:
		md.Set(pushbackTrailer, pushbackValue(s.delay))
	}
	return md
}

// SetPushback tells the caller of the handler that ctx belongs to when to try
// again: after d, exactly, should the handler fail (grpc-retry-pushback-ms of
// gRFC A6, in milliseconds, rounded up). Negative durations count as 0, longer
// ones than fit (24 days) as the longest. The last value of several counts.
//
// Under the server interceptors the value is sent with the answer. Without them
// it is set as a trailer at once, so it must be called only once. The error is
// grpc.SetTrailer's, for a context that no gRPC handler was given.
func SetPushback(ctx context.Context, d time.Duration) error {
	d = max(d, 0)
	if s := slotFrom(ctx); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told, s.delay = true, d
		return nil
	}
	return grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, pushbackValue(d)))
}

// StopRetries tells the caller of the handler that ctx belongs to not to try
// again, should the handler fail (grpc-retry-pushback-ms: -1). It outranks
// [SetPushback]. See there for how it is sent and for the error.
func StopRetries(ctx context.Context) error {
	if s := slotFrom(ctx); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stop = true
		return nil
	}
	return grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, "-1"))
}

// pushbackValue returns d in whole milliseconds, rounded up.
func pushbackValue(d time.Duration) string {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(min(ms, math.MaxInt32), 10)
}
