package redis

import (
	"math/rand/v2"
	"time"
)

// link is how a budget stands with Redis. Only the Fleet's goroutine uses it.
type link struct {
	epoch   string // as in request
	version int64

	server int64     // the server's time by the last answer, 0 for none
	read   time.Time // when the request of that answer was sent

	flying  bool
	sent    time.Time // the last request
	kept    time.Time // when the last request was sent that Redis accepted
	used    time.Time // when a call was last noticed
	retry   time.Time // when to try again, while Redis is away
	backoff time.Duration
}

// due reports whether there is something to say to Redis. tick is true once a
// Period.
func (b *budget) due(now time.Time, tick bool) bool {
	l := &b.link
	switch {
	case l.flying:
		return false
	case b.away.Load():
		return !now.Before(l.retry)
	case l.server == 0:
		return true // the first exchange
	case b.asked.Load() && b.pool.Load() >= milli:
		// Each such exchange gets a token or finds the pool empty, so there are
		// no more of them than tokens.
		return true
	case !tick:
		return false
	}
	hand := b.hand.Load()
	return b.successes.Load() > 0 || b.asked.Load() || hand != b.keep(hand) ||
		hand > 0 && (b.idle(now) || now.Sub(l.kept) >= b.set.heartbeat)
}

// keep is how much of what is in hand stays there when Redis can be reached:
// whole tokens, so that what is missing can be had.
func (b *budget) keep(hand int64) int64 { return min(hand, b.set.lease) / milli * milli }

func (b *budget) idle(now time.Time) bool { return now.Sub(b.link.used) >= b.set.Idle }

// prepare makes the next request. What it carries has left the budget: if the
// request fails, nobody knows whether Redis has it, so nobody sends it again.
// While Redis is away, and the first time, a request carries nothing.
func (b *budget) prepare(now time.Time, leave bool) request {
	l := &b.link
	if b.asked.Swap(false) {
		l.used = now
	}
	r := request{key: b.key, epoch: l.epoch, version: l.version}
	if l.server > 0 && !b.away.Load() {
		r.deadline = l.server + (now.Sub(l.read) + b.set.Timeout).Milliseconds()
		r.credit = b.earned(now, b.set.capacity)
		keep := int64(0)
		if !leave {
			keep = b.keep(b.hand.Load())
		}
		r.back = b.takeAbove(keep)
	}
	r.held = b.hand.Load()
	if !leave && !b.away.Load() {
		r.want = max(0, b.set.lease-r.held) / milli * milli
	}
	l.flying, l.sent = true, now
	return r
}

// earned takes the successes that were not reported and returns what they are
// worth, up to a limit.
func (b *budget) earned(now time.Time, most int64) int64 {
	n := b.successes.Swap(0)
	if n > 0 {
		b.link.used = now
	}
	return min(n, most/b.set.ratio+1) * b.set.ratio
}

// landed takes an answer in.
func (b *budget) landed(a answer) {
	l := &b.link
	l.flying, l.backoff = false, 0
	l.server, l.read = a.now, l.sent
	if a.verdict != late {
		l.epoch, l.version, l.kept = a.epoch, a.version, l.sent
		b.pool.Store(a.level)
		b.add(a.grant, b.set.most)
	}
	b.away.Store(false)
}

// failed takes in that there will be no answer.
func (b *budget) failed(now time.Time) {
	l := &b.link
	l.flying = false
	l.backoff = min(max(2*l.backoff, b.set.Period), b.set.MaxBackoff)
	// The processes of a fleet lose Redis together; they should not come back
	// together.
	l.retry = now.Add(l.backoff - rand.N(l.backoff/2+1))
	b.away.Store(true)
}

// overdue reports whether an answer takes so long that Redis counts as away from
// now on.
func (b *budget) overdue(now time.Time) bool {
	return b.link.flying && !b.away.Load() && now.Sub(b.link.sent) >= b.set.Timeout
}

// fold is the fallback, once a Period: successes go into the hand, up to this
// process's share of the capacity. Without a share they are lost, and so is what
// is in hand, well before the other processes take its room in the pool.
func (b *budget) fold(now time.Time) {
	if b.asked.Swap(false) {
		b.link.used = now
	}
	earned := b.earned(now, b.set.local)
	if b.set.local > 0 {
		b.add(earned, b.set.local)
	} else if now.Sub(b.link.kept) >= b.set.hold/2 {
		b.takeAbove(0)
	}
}

// sleeps reports whether the budget has nothing left to look after.
func (b *budget) sleeps(now time.Time) bool {
	return !b.link.flying && b.idle(now) && b.quiet() && (b.away.Load() || b.hand.Load() == 0)
}

// quiet reports whether no call left anything to do.
func (b *budget) quiet() bool { return b.successes.Load() == 0 && !b.asked.Load() }

// forget leaves nothing but that there was a bucket.
func (b *budget) forget() {
	b.takeAbove(0)
	if b.link.epoch != "" {
		b.link = link{epoch: forgotten}
	} else {
		b.link = link{}
	}
	b.away.Store(false)
}
