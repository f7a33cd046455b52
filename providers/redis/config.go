package redis

import (
	"fmt"
	"math"
	"time"

	"github.com/retrybudget/retrybudget"
)

// The defaults and limits of [Config].
const (
	defaultPrefix     = "retrybudget"
	defaultPeriod     = 100 * time.Millisecond
	defaultMaxBackoff = 2 * time.Second
	defaultIdle       = time.Minute
	defaultTTL        = time.Hour

	minPeriod = time.Millisecond
	maxPeriod = 10 * time.Second
	maxTime   = 365 * 24 * time.Hour

	// hintedPrice is what a retry after a failure with the exhausted hint costs,
	// as with a [retrybudget.TokenBucket].
	hintedPrice = 4
	// milli is one token in the unit of all counts, a thousandth.
	milli = 1000
)

// A process that holds tokens is heard of every heartbeatPeriods; its tokens
// count as held for holdPeriods after that.
const (
	heartbeatPeriods = 10
	holdPeriods      = 50
)

// Config describes a [Fleet]. All processes that share budgets must have the
// same. The zero value is valid: the capacity and credit of the library's default
// budget, and no retries while Redis is away.
type Config struct {
	// Prefix begins the names of all keys in Redis. Fleets that must not share
	// have different ones. "" means "retrybudget".
	Prefix string
	// Bucket is the budget of all processes together: its capacity, what one
	// success deposits, and the tokens of a bucket that is not in Redis yet and
	// that the process asking for it never saw there.
	Bucket retrybudget.TokenBucketConfig
	// Lease is how many tokens of each bucket a process may hold in hand, and so
	// its largest burst within an exchange. 0 means 4, what a retry after an
	// exhausted hint costs, or the capacity if that is less. From that number to
	// the capacity.
	Lease int
	// Replicas chooses what happens while Redis cannot be reached. 0 denies:
	// what is in hand may be spent for a short while, successes earn nothing.
	// Any other number is taken for that of the processes: each works with a
	// token bucket of its own, of Capacity/Replicas tokens (at least one), which
	// begins with what is in hand. Not below 0.
	Replicas int
	// Period is the time between two exchanges with Redis. 0 means 100 ms; from
	// 1 ms to 10 s.
	Period time.Duration
	// Timeout is how long an exchange may take until Redis counts as away. 0
	// means as long as Period; from 1 ms to 10 s.
	Timeout time.Duration
	// MaxBackoff is the longest time between two attempts to reach a Redis that
	// is away; the first comes after one Period, and each wait is twice the last,
	// less a random part. 0 means 2 s; at least Period.
	MaxBackoff time.Duration
	// Idle is how long a method is not called before the process gives back what
	// it holds. After that, the first failure finds nothing in hand. 0 means 1
	// min; at least Period.
	Idle time.Duration
	// TTL is how long Redis keeps a bucket that no process uses. 0 means 1 h; at
	// least twice Idle.
	TTL time.Duration
	// OnState is told when the first budget falls back and when the last one is
	// shared again, with the error that was the cause, nil for Shared. It runs on
	// the goroutine that does the exchanges, so it must be quick and must not
	// call Close. nil is allowed.
	OnState func(s State, cause error)
}

// settings are a validated Config, in thousandths of tokens.
type settings struct {
	Config
	capacity, ratio, initial int64
	lease                    int64
	local                    int64 // capacity of the fallback, 0 to deny
	most                     int64 // that may ever be in hand
	heartbeat, hold          time.Duration
}

func (cfg Config) settings() (settings, error) {
	s := settings{Config: cfg}
	if err := s.readBucket(); err != nil {
		return s, err
	}
	whole := s.capacity / milli
	if s.Prefix == "" {
		s.Prefix = defaultPrefix
	}
	least := min(hintedPrice, whole)
	switch {
	case cfg.Lease != 0 && (int64(cfg.Lease) < least || int64(cfg.Lease) > whole):
		return s, fmt.Errorf("retrybudget: redis.Config.Lease %d is not in %d..Capacity (%d)", cfg.Lease, least, whole)
	case cfg.Replicas < 0:
		return s, fmt.Errorf("retrybudget: redis.Config.Replicas %d is below 0", cfg.Replicas)
	}
	s.lease = int64(cfg.Lease) * milli
	if s.lease == 0 {
		s.lease = least * milli
	}
	if cfg.Replicas > 0 {
		s.local = max(milli, s.capacity/int64(cfg.Replicas))
	}
	s.most = max(s.lease, s.local)
	err := s.readTimes()
	return s, err
}

// readBucket lets the library read the description of the bucket, so that both
// have the same defaults and limits.
func (s *settings) readBucket() error {
	b, err := retrybudget.NewTokenBucket(s.Bucket)
	if err != nil {
		return err
	}
	initial, capacity := b.Level()
	s.initial, s.capacity = thousandths(initial), thousandths(capacity)
	b, err = retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{Ratio: s.Bucket.Ratio})
	if err != nil {
		return err
	}
	b.RecordSuccess()
	ratio, _ := b.Level()
	s.ratio = thousandths(ratio)
	return nil
}

func (s *settings) readTimes() error {
	s.Period = orDefault(s.Period, defaultPeriod)
	s.Timeout = orDefault(s.Timeout, s.Period)
	s.MaxBackoff = orDefault(s.MaxBackoff, max(defaultMaxBackoff, s.Period))
	s.Idle = orDefault(s.Idle, defaultIdle)
	s.TTL = orDefault(s.TTL, max(defaultTTL, 2*s.Idle))
	s.heartbeat, s.hold = heartbeatPeriods*s.Period, holdPeriods*s.Period
	for _, t := range []struct {
		name               string
		value, least, most time.Duration
	}{
		{"Period", s.Period, minPeriod, maxPeriod},
		{"Timeout", s.Timeout, minPeriod, maxPeriod},
		{"MaxBackoff", s.MaxBackoff, s.Period, maxTime},
		{"Idle", s.Idle, s.Period, maxTime},
		{"TTL", s.TTL, 2 * s.Idle, 2 * maxTime},
	} {
		if t.value < t.least || t.value > t.most {
			return fmt.Errorf("retrybudget: redis.Config.%s %v is not in %v..%v", t.name, t.value, t.least, t.most)
		}
	}
	return nil
}

func orDefault(value, none time.Duration) time.Duration {
	if value == 0 {
		return none
	}
	return value
}

// price is what a retry costs.
func (s *settings) price(hinted bool) int64 {
	if hinted {
		return min(hintedPrice*milli, s.capacity)
	}
	return milli
}

func thousandths(tokens float64) int64 { return int64(math.Round(tokens * milli)) }
