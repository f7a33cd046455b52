package main

import (
	"time"
)

// What the live page is told, as JSON; times are in seconds, rates per second.

// storyShown is what is known when a run begins.
type storyShown struct {
	Title    string          `json:"title"`
	Fault    string          `json:"fault"` // what is so in it
	Length   float64         `json:"length"`
	From     float64         `json:"from"` // of the fault
	To       float64         `json:"to"`
	Rate     float64         `json:"rate"`
	Top      float64         `json:"top"`      // of the charts, unless more arrives
	Capacity [][2]float64    `json:"capacity"` // of the server, over time
	Shown    []strategyShown `json:"strategies"`
}

type strategyShown struct {
	Title  string `json:"title"`
	About  string `json:"about"`
	Budget bool   `json:"budget"` // it has one that can be looked at
}

// sample is what happened since the one before.
type sample struct {
	At       float64   `json:"at"`
	Phase    string    `json:"phase"`
	Readings []reading `json:"readings"` // in the order of the strategies
}

type reading struct {
	Offered float64 `json:"offered"` // attempts that reached the server
	Goodput float64 `json:"goodput"` // calls that ended OK
	Tokens  float64 `json:"tokens"`  // in all budgets together
	Refused float64 `json:"refused"` // retries
}

// finalNote is the end of a run.
type finalNote struct {
	Interrupted bool   `json:"interrupted"`
	Warning     string `json:"warning"` // that the machine was too slow, if it was
}

func showStory(c config, l *live) storyShown {
	s := c.scenario()
	shown := storyShown{
		Title: s.Title, Fault: s.about(c), Length: l.story.length().Seconds(),
		From: l.story.FaultStart.Seconds(), To: l.story.FaultEnd.Seconds(),
		Rate: c.Rate, Top: highest(c, nil),
	}
	for _, p := range capacityLine(c, l.story) {
		shown.Capacity = append(shown.Capacity, [2]float64{p.X, p.Y})
	}
	for _, w := range l.worlds {
		shown.Shown = append(shown.Shown, strategyShown{Title: w.strategy.Title, About: w.strategy.About, Budget: w.watched != nil})
	}
	return shown
}

// sampleStep is how often samples are taken: twice a second, or a long run would
// have more of them than a page can draw.
func sampleStep(length time.Duration) time.Duration {
	return max(500*time.Millisecond, (length / 1200).Round(time.Millisecond))
}

// counts is what was counted of a world so far.
type counts struct{ attempts, good, refused int64 }

func countsOf(w *world) counts {
	n := counts{attempts: int64(w.arrivals.Total()), good: w.good.Load()}
	if w.watched != nil {
		n.refused = w.watched.refused.Load()
	}
	return n
}

// sampler turns counts into rates.
type sampler struct {
	live *live
	at   time.Duration
	seen []counts
}

func newSampler(l *live) *sampler { return &sampler{live: l, seen: make([]counts, len(l.worlds))} }

// next is the sample since the last one; ok is false for one that is too short to
// tell a rate.
func (s *sampler) next() (_ sample, ok bool) {
	now := s.live.Now()
	span := (now - s.at).Seconds()
	if now-s.at < sampleStep(s.live.Length())/2 {
		return sample{}, false
	}
	s.at = now
	shown := sample{At: now.Seconds(), Phase: s.live.story.at(now).Name}
	for i, w := range s.live.worlds {
		n, before := countsOf(w), s.seen[i]
		r := reading{
			Offered: float64(n.attempts-before.attempts) / span,
			Goodput: float64(n.good-before.good) / span,
			Refused: float64(n.refused-before.refused) / span,
		}
		if w.watched != nil {
			r.Tokens = w.watched.tokens()
		}
		s.seen[i] = n
		shown.Readings = append(shown.Readings, r)
	}
	return shown, true
}
