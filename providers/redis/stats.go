package redis

import "sync/atomic"

// State is how a [Fleet] works.
type State uint8

// The states of a Fleet.
const (
	// Shared: all budgets in use are shared, or are about to be for the first
	// time.
	Shared State = iota
	// Fallback: for at least one budget Redis is away, and it works with what
	// this process has; see [Config.Replicas].
	Fallback
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Shared:
		return "shared"
	case Fallback:
		return "fallback"
	default:
		return "unknown"
	}
}

// Stats are the numbers of a [Fleet], for metrics. Counts are since [New].
type Stats struct {
	// Budgets are those in use now, Away those of them that Redis is away for.
	Budgets, Away int
	// RoundTrips are the pipelines sent to Redis, Exchanges the single buckets'
	// exchanges in them that Redis answered, Failures those that it did not.
	RoundTrips, Exchanges, Failures uint64
	// Late are exchanges that came to Redis after their time and did nothing.
	Late uint64
	// Lost is how often Redis turned out to have lost a bucket or gone back to an
	// older state of it; the bucket was empty after that.
	Lost uint64
	// Granted are the tokens that this process got, Earned those that its
	// successes were worth, and Returned those that it gave back, as reported to
	// Redis.
	Granted, Earned, Returned float64
}

// State tells how the Fleet works now.
func (f *Fleet) State() State {
	if f.stats.away.Load() > 0 {
		return Fallback
	}
	return Shared
}

// Stats returns the numbers of the Fleet. It may be called at any time, also
// after Close.
func (f *Fleet) Stats() Stats {
	s := &f.stats
	return Stats{
		Budgets: int(s.awake.Load()), Away: int(s.away.Load()),
		RoundTrips: s.roundTrips.Load(), Exchanges: s.exchanges.Load(), Failures: s.failures.Load(),
		Late: s.late.Load(), Lost: s.lost.Load(),
		Granted:  float64(s.granted.Load()) / milli,
		Earned:   float64(s.earned.Load()) / milli,
		Returned: float64(s.returned.Load()) / milli,
	}
}

type stats struct {
	awake, away                     atomic.Int64
	roundTrips, exchanges, failures atomic.Uint64
	late, lost                      atomic.Uint64
	granted, earned, returned       atomic.Uint64 // thousandths
}

// count counts an exchange that was answered.
func (s *stats) count(r *request, a *answer) {
	s.exchanges.Add(1)
	switch a.verdict {
	case late:
		s.late.Add(1)
		return
	case lost:
		s.lost.Add(1)
	default:
	}
	s.granted.Add(uint64(a.grant))
	s.earned.Add(uint64(r.credit))
	s.returned.Add(uint64(r.back))
}
