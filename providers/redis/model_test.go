package redis_test

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// model is a Redis that knows one script: what exchange.lua is meant to do, said
// once more. TestScript_doesWhatTheModelDoes compares the two.
type model struct {
	mu      sync.Mutex
	clock   func() int64 // milliseconds
	buckets map[string]*bucket
}

type bucket struct {
	epoch               string
	version, level, out int64
	sweep               int64
	holders             map[string]holder
}

type holder struct{ tokens, till int64 }

// newModel makes a model whose clock is the (fake) time plus step, in
// nanoseconds.
func newModel(step *atomic.Int64) *model {
	return &model{
		clock:   func() int64 { return time.Now().Add(time.Duration(step.Load())).UnixMilli() },
		buckets: make(map[string]*bucket),
	}
}

// call is a request, as its arguments.
type call struct {
	key                        string
	id, epoch                  string
	version                    int64
	fresh                      string
	capacity, initial          int64
	ttl, hold, deadline        int64
	credit, back, held, wanted int64
}

// callOf reads the arguments of EVALSHA or EVAL.
func callOf(args []any) call {
	number := func(i int) int64 {
		switch v := args[i].(type) {
		case int64:
			return v
		case int:
			return int64(v)
		default:
			panic(fmt.Sprintf("argument %d is a %T", i, v))
		}
	}
	word := func(i int) string { return args[i].(string) } //nolint:errcheck // a panic fails the test
	return call{
		key: word(3), id: word(4), epoch: word(5), version: number(6), fresh: word(7),
		capacity: number(8), initial: number(9),
		ttl: number(10), hold: number(11), deadline: number(12),
		credit: number(13), back: number(14), held: number(15), wanted: number(16),
	}
}

func (m *model) do(c call) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	if c.deadline > 0 && now > c.deadline {
		return []any{"late", "", int64(0), int64(0), int64(0), now}
	}
	b, verdict := m.bucketFor(c, now)
	if now >= b.sweep || b.sweep > now+c.hold {
		b.lookThroughHolders(c, now)
	} else {
		b.out = max(0, b.out-b.holders[c.id].tokens)
	}
	b.level = max(0, min(b.level+c.credit+c.back, c.capacity-b.out-c.held))
	grant := c.wanted
	if half := b.level / 2000 * 1000; half >= 1000 {
		grant = min(grant, half)
	} else {
		grant = min(grant, 1000)
	}
	grant = min(grant, b.level/1000*1000)
	b.level -= grant
	b.out += c.held + grant
	b.version++
	if c.held+grant > 0 {
		b.holders[c.id] = holder{c.held + grant, now + c.hold}
	} else {
		delete(b.holders, c.id)
	}
	return []any{verdict, b.epoch, b.version, b.level, grant, now}
}

func (m *model) bucketFor(c call, now int64) (b *bucket, verdict string) {
	b, verdict = m.buckets[c.key], "ok"
	switch {
	case b == nil:
		b = &bucket{epoch: c.fresh, sweep: now + c.hold, holders: make(map[string]holder)}
		m.buckets[c.key] = b
		verdict = "lost"
		if c.epoch == "" {
			b.level, verdict = c.initial, "made"
		}
	case c.epoch == "" || c.epoch == "?":
	case b.epoch != c.epoch || b.version < c.version:
		b.level, b.version, verdict = 0, max(b.version, c.version), "lost"
	}
	return b, verdict
}

func (b *bucket) lookThroughHolders(c call, now int64) {
	b.out = 0
	for id, h := range b.holders {
		switch {
		case id == c.id:
		case h.till <= now:
			delete(b.holders, id)
		default:
			b.out += h.tokens
			b.holders[id] = holder{h.tokens, min(h.till, now+c.hold)}
		}
	}
	b.sweep = now + c.hold/2
}

// wipe loses everything.
func (m *model) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.buckets)
}

// snapshot returns what brings the model back to where it is now.
func (m *model) snapshot() (restore func()) {
	copied := func(from map[string]*bucket) map[string]*bucket {
		to := make(map[string]*bucket)
		for key, b := range from {
			c := *b
			c.holders = make(map[string]holder)
			maps.Copy(c.holders, b.holders)
			to[key] = &c
		}
		return to
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	saved := copied(m.buckets)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.buckets = copied(saved)
	}
}

// tokens returns what is in all pools.
func (m *model) tokens() (sum int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.buckets {
		sum += b.level
	}
	return sum
}
