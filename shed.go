package retrybudget

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// shedSlices are the parts of the last second that arrivals are counted in.
	shedSlices = 10
	shedSlice  = time.Second / shedSlices
	// shedShare is the share of retries, as a divisor, above which shed ones
	// are told not to come back.
	shedShare = 10
)

// WithRetryShedding sheds retries first when the server is loaded: while full
// reports true, a request that is a retry fails with UNAVAILABLE before its
// handler runs; first attempts go on, to whatever limiter stands behind. Once
// more than a tenth of the last second's arrivals are retries, those shed carry
// grpc-retry-pushback-ms: -1, so that their clients stop retrying.
//
// Arrivals are counted for the option: give the same one to the unary and the
// stream interceptor to count them together.
//
// full is the application's own limiter and should say so somewhat before first
// attempts have to be refused. It runs for each retry and must be quick and safe
// for concurrent use.
func WithRetryShedding(full func(ctx context.Context) bool) ServerOption {
	shed := &shedder{full: full}
	return serverOptionFunc(func(s *server) {
		if full == nil {
			s.errs = append(s.errs, errors.New("retrybudget: WithRetryShedding: nil function"))
		}
		s.shed = shed
	})
}

// shedder counts the arrivals of the last second and refuses retries under load.
type shedder struct {
	full func(context.Context) bool

	mu     sync.Mutex
	slices [shedSlices]arrivals
	newest time.Time // start of the newest slice
	at     int       // its index
}

type arrivals struct{ all, retries int }

// admit counts a request and refuses it if it is a retry that the load does not
// allow.
func (s *shedder) admit(ctx context.Context, slot *slot) error {
	retry := slot.attempt > 1
	stop := s.arrive(time.Now(), retry)
	if !retry || !s.full(ctx) {
		return nil
	}
	if stop {
		slot.stop = true // nobody else has the slot yet
	}
	return status.Error(codes.Unavailable, "retrybudget: overloaded, retries are refused first")
}

// arrive counts a request and reports whether retries are more than a tenth of
// the last second's.
func (s *shedder) arrive(now time.Time, retry bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	s.slices[s.at].all++
	if retry {
		s.slices[s.at].retries++
	}
	var sum arrivals
	for _, a := range s.slices {
		sum.all += a.all
		sum.retries += a.retries
	}
	return sum.retries*shedShare > sum.all
}

// advance makes the slice of now the newest and forgets those a second old. A
// clock that was set back changes nothing.
func (s *shedder) advance(now time.Time) {
	steps := int64(now.Sub(s.newest) / shedSlice)
	if steps <= 0 {
		return
	}
	if steps >= shedSlices {
		s.slices = [shedSlices]arrivals{}
		s.newest = now
		return
	}
	for range steps {
		s.at = (s.at + 1) % shedSlices
		s.slices[s.at] = arrivals{}
	}
	s.newest = s.newest.Add(time.Duration(steps) * shedSlice)
}
