package redis

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// loop is what the goroutine of a Fleet knows.
type loop struct {
	awake   map[*budget]struct{}
	tick    time.Time // when the next Period begins
	flights int
	state   State
	cause   error // of the last failure
}

var (
	errOverdue = errors.New("retrybudget: redis: no answer within the timeout")
	errLate    = errors.New("retrybudget: redis: an exchange came to Redis after its time")
)

// run is the goroutine of a Fleet. It never waits for Redis.
func (f *Fleet) run() {
	defer close(f.done)
	defer f.cancel(nil)
	l := &f.loop
	l.awake = make(map[*budget]struct{})
	timer := time.NewTimer(f.set.Period)
	defer timer.Stop()
	for {
		select {
		case <-f.kick:
		case <-timer.C:
		case fl := <-f.landing:
			f.land(fl)
		case <-f.closing:
			f.err = f.leave()
			return
		}
		now := time.Now()
		f.welcome(now)
		f.look(now)
		if next, ok := f.next(); ok {
			timer.Reset(max(0, next.Sub(now)))
		} else {
			timer.Stop()
		}
	}
}

// welcome takes over the budgets that calls have woken.
func (f *Fleet) welcome(now time.Time) {
	f.mu.Lock()
	woken := f.woken
	f.woken = nil
	f.mu.Unlock()
	for _, b := range woken {
		b.link.used = now
		f.loop.awake[b] = struct{}{}
	}
}

// look does for each budget what is due. All that is said to Redis at a time goes
// in one round trip, except that those for which Redis is away go by themselves:
// in a cluster, a node that is away must not keep the others waiting.
func (f *Fleet) look(now time.Time) {
	l := &f.loop
	tick := !now.Before(l.tick)
	if tick {
		l.tick = now.Add(f.set.Period)
	}
	var shared, probes flight
	for b := range l.awake {
		if b.overdue(now) {
			f.fellBack(b, errOverdue)
		}
		if tick && b.away.Load() {
			b.fold(now)
		}
		switch {
		case b.sleeps(now):
			f.putToSleep(b)
		case !b.due(now, tick):
		case b.away.Load():
			probes.add(b, b.prepare(now, false))
		default:
			shared.add(b, b.prepare(now, b.idle(now) && b.quiet()))
		}
	}
	f.launch(&shared)
	f.launch(&probes)
	f.publish()
}

// next is when to look around again, unless something happens.
func (f *Fleet) next() (time.Time, bool) {
	l := &f.loop
	next := l.tick
	for b := range l.awake {
		if b.link.flying && !b.away.Load() {
			if t := b.link.sent.Add(f.set.Timeout); t.Before(next) {
				next = t
			}
		}
	}
	return next, len(l.awake) > 0
}

// land takes in what became of a flight.
func (f *Fleet) land(fl *flight) {
	f.loop.flights--
	now := time.Now()
	for i, b := range fl.budgets {
		if err := fl.errs[i]; err != nil {
			f.stats.failures.Add(1)
			f.fellBack(b, err)
			b.failed(now)
			continue
		}
		f.stats.count(&fl.requests[i], &fl.answers[i])
		b.landed(fl.answers[i])
	}
}

func (f *Fleet) fellBack(b *budget, cause error) {
	f.loop.cause = cause
	b.away.Store(true)
}

// putToSleep stops looking after a budget, until a call wakes it.
func (f *Fleet) putToSleep(b *budget) {
	delete(f.loop.awake, b)
	b.forget()
	b.awake.Store(false)
	if !b.quiet() { // a call came too early to see that
		f.wake(b)
	}
}

// publish tells the world how things are.
func (f *Fleet) publish() {
	l := &f.loop
	away := 0
	for b := range l.awake {
		if b.away.Load() {
			away++
		}
	}
	f.stats.awake.Store(int64(len(l.awake)))
	f.stats.away.Store(int64(away))
	state := Shared
	if away > 0 {
		state = Fallback
	}
	if state == l.state {
		return
	}
	l.state = state
	if f.set.OnState != nil {
		var cause error
		if state == Fallback {
			cause = l.cause
		}
		f.set.OnState(state, cause)
	}
}

// leave is the end: it waits for what is under way, then gives everything back.
func (f *Fleet) leave() error {
	f.welcome(time.Now())
	if err := f.wait(); err != nil {
		return err
	}
	// A first exchange carries nothing, so who had none yet needs two.
	var first, last flight
	now := time.Now()
	for b := range f.loop.awake {
		if !b.away.Load() && b.link.server == 0 && b.successes.Load() > 0 {
			first.add(b, b.prepare(now, true))
		}
	}
	f.launch(&first)
	if err := f.wait(); err != nil {
		return err
	}
	lost := 0
	now = time.Now()
	for b := range f.loop.awake {
		switch {
		case b.away.Load():
			if b.takeAbove(0) > 0 || b.successes.Swap(0) > 0 {
				lost++
			}
		case b.link.server > 0:
			last.add(b, b.prepare(now, true))
		default: // it has nothing to say
		}
	}
	f.launch(&last)
	if err := f.wait(); err != nil {
		return err
	}
	f.publish()
	cause := f.loop.cause
	for i, err := range last.errs {
		if err == nil && last.answers[i].verdict == late {
			err = errLate
		}
		if err != nil {
			lost, cause = lost+1, err
		}
	}
	if lost > 0 {
		return fmt.Errorf("retrybudget: redis.Fleet.Close: what %d budgets held was not given back: %w", lost, cause)
	}
	return nil
}

// wait waits for all flights, or for the end of Close's patience.
func (f *Fleet) wait() error {
	for f.loop.flights > 0 {
		select {
		case fl := <-f.landing:
			f.land(fl)
		case <-f.ctx.Done():
			for b := range f.loop.awake {
				b.takeAbove(0)
			}
			return fmt.Errorf("retrybudget: redis.Fleet.Close: Redis did not answer: %w", context.Cause(f.ctx))
		}
	}
	return nil
}
