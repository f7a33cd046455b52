package redis_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// ledger is what happened in all processes, in order.
type ledger struct {
	mu     sync.Mutex
	events []event
}

type event struct {
	at                 time.Time
	retries, successes int
}

func (l *ledger) note(at time.Time, retries, successes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if retries+successes > 0 {
		l.events = append(l.events, event{at, retries, successes})
	}
}

func (l *ledger) total() (retries, successes int) {
	for _, e := range l.events {
		retries += e.retries
		successes += e.successes
	}
	return retries, successes
}

// excess is the most that retries were above a tenth of the successes in any
// window, in tokens. Successes of so long before the window count too, because
// they may have been reported in it.
func (l *ledger) excess(before time.Duration) float64 {
	const ratio = 0.1
	most, least := 0.0, 0.0
	retries, successes := 0, 0 // up to the window's end
	early, n := 0, 0           // successes that cannot have been reported in it, and events with them
	for i, e := range l.events {
		for l.events[n].at.Before(e.at.Add(-before)) {
			early += l.events[n].successes
			n++
		}
		if start := float64(retries) - ratio*float64(early); i == 0 || start < least {
			least = start
		}
		retries += e.retries
		successes += e.successes
		most = max(most, float64(retries)-ratio*float64(successes)-least)
	}
	return most
}

func TestLedger_excess(t *testing.T) {
	t.Parallel()
	start := time.Now()
	l := ledger{}
	l.note(start, 0, 100)
	l.note(start.Add(time.Second), 3, 0)
	l.note(start.Add(2*time.Second), 0, 10)
	l.note(start.Add(3*time.Second), 4, 0)
	assert.InDelta(t, 6, l.excess(0), 1e-9, "3 + 4 – 1")
	assert.InDelta(t, 3, l.excess(1500*time.Millisecond), 1e-9, "each window has successes before it, and 4 – 1")
	assert.Zero(t, (&ledger{}).excess(0))
}

// play runs a fleet of n processes for a minute in fake time: health and storms
// that come and go. In each step of 10 ms it may do something else, too.
type play struct {
	t         *testing.T
	random    *rand.Rand
	cfg       redis.Config
	model     *model
	clock     atomic.Int64
	processes []*process
	ledger    ledger
}

type process struct {
	wire   *wire
	fleet  *redis.Fleet
	budget retrybudget.Budget
	storm  bool
}

func newPlay(t *testing.T, seed uint64, n int, cfg redis.Config) *play {
	p := &play{t: t, random: rand.New(rand.NewPCG(seed, 7)), cfg: cfg}
	p.model = newModel(&p.clock)
	for range n {
		p.processes = append(p.processes, p.start())
	}
	return p
}

func (p *play) start() *process {
	w := newWire()
	w.model = p.model
	f := w.fleet(p.t, p.cfg)
	return &process{wire: w, fleet: f, budget: budgetOf(p.t, f)}
}

// kill ends a process as kill -9 would: it says nothing more, and what it had in
// hand is gone with it. Another one starts.
func (p *play) kill(i int) {
	p.processes[i].wire.set(refused)
	p.processes[i] = p.start()
}

func (p *play) run(disturb func()) {
	for range 6000 {
		if p.random.IntN(200) == 0 {
			storm := p.random.IntN(2) == 0
			for _, process := range p.processes {
				process.storm = storm
			}
		}
		disturb()
		for _, process := range p.processes {
			retries, successes := 0, p.random.IntN(5)/4
			if process.storm {
				successes = p.random.IntN(50) / 49
				retries = take(process.budget, p.random.IntN(8))
			}
			succeed(process.budget, successes)
			p.ledger.note(time.Now(), retries, successes)
		}
		<-time.After(10 * time.Millisecond)
	}
}

const (
	playPeriod = 100 * time.Millisecond
	unreported = 3 * playPeriod // a Period and two Timeouts
)

// As long as Redis keeps its data, all processes together have one bucket, also
// when some of them are killed with tokens in hand.
func TestBound_killedProcesses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			p := newPlay(t, seed, 5, redis.Config{})
			p.run(func() {
				if p.random.IntN(300) == 0 {
					p.kill(p.random.IntN(len(p.processes)))
				}
			})
			retries, successes := p.ledger.total()
			assert.LessOrEqual(t, float64(retries), 0.1*float64(successes))
			excess := p.ledger.excess(unreported)
			assert.LessOrEqual(t, excess, 20.0001, "seed %d", seed)
			assert.Greater(t, excess, 10.0, "seed %d: a bound that is never near is not tested", seed)
			t.Logf("seed %d: %d retries, %d successes, at most %.1f above a tenth in any window", seed, retries, successes, excess)
		})
	}
}

// Whatever happens to Redis and to the way there, no token comes from nowhere,
// and no window has more than the bucket and all hands.
func TestBound_everyFault(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{0, 5, 2} {
		for seed := range uint64(8) {
			synctest.Test(t, func(t *testing.T) {
				const n = 5
				p := newPlay(t, seed, n, redis.Config{Replicas: replicas, MaxBackoff: 500 * time.Millisecond})
				p.run(func() { p.disturb() })
				retries, successes := p.ledger.total()
				assert.LessOrEqual(t, float64(retries), 0.1*float64(successes), "seed %d", seed)
				hand := 4.0
				if replicas > 0 {
					hand = max(hand, 20/float64(replicas))
				}
				excess := p.ledger.excess(unreported)
				assert.LessOrEqual(t, excess, 20+n*hand, "seed %d", seed)
				t.Logf("replicas %d, seed %d: %d retries, %d successes, at most %.1f above a tenth in any window; bound %g", replicas, seed, retries, successes, excess, 20+n*hand)
				for _, process := range p.processes {
					process.wire.change(func() { process.wire.fault = none })
					succeed(process.budget, 1)
				}
				<-time.After(2 * time.Second)
				for _, process := range p.processes {
					assert.Equal(t, redis.Shared, process.fleet.State(), "all recover")
				}
			})
		}
	}
}

func (p *play) disturb() {
	switch p.random.IntN(600) {
	case 0:
		p.kill(p.random.IntN(len(p.processes)))
	case 1:
		p.model.wipe()
	case 2:
		p.clock.Add(p.random.Int64N(int64(20 * time.Second)))
	case 3:
		p.clock.Add(-p.random.Int64N(int64(20 * time.Second)))
	case 4, 5: // one process, or all, lose Redis, or get it back
		f := fault(p.random.IntN(int(nonsense) + 1))
		for _, process := range p.processes {
			process.wire.change(func() { process.wire.fault, process.wire.stall = f, time.Second })
		}
	case 6, 7, 8, 9:
		w := p.processes[p.random.IntN(len(p.processes))].wire
		w.set(fault(p.random.IntN(int(nonsense) + 1)))
	case 10, 11, 12:
		for _, process := range p.processes {
			process.wire.set(none)
		}
	case 13: // another process takes the token that this one wanted
		b := p.processes[p.random.IntN(len(p.processes))].budget
		if c := (retrybudget.Cause{Exhausted: p.random.IntN(2) == 0}); b.TryTake(c) {
			b.Settle(c, retrybudget.Refused)
		}
	case 14:
		for _, process := range p.processes {
			process.wire.forgets.Store(true)
		}
	default:
	}
}
