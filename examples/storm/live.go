package main

import (
	"fmt"
	"strings"
	"time"
)

// live is what can be seen of a run while it goes on.
type live struct {
	story  story
	start  time.Time
	rate   float64
	worlds []*world

	seen []int // attempts of each world when load was last asked
}

// Length is that of the story.
func (l *live) Length() time.Duration { return l.story.length() }

// Now is how much of the story is over.
func (l *live) Now() time.Duration {
	return min(time.Since(l.start), l.story.length())
}

// Part is the name of the phase.
func (l *live) Part() string { return l.story.at(l.Now()).Name }

// Label is as wide for one phase as for the next, so that the bar stands still.
func (l *live) Label() string {
	width := 0
	for _, p := range l.story.Phases {
		width = max(width, len(p.Name))
	}
	return fmt.Sprintf("%-*s", width, l.Part())
}

// Head says how long it takes and what the numbers are.
func (l *live) Head() string {
	return fmt.Sprintf("a story of %v; numbers are the load on each strategy's server, 1.0 is one attempt for each call", l.story.length())
}

// Load tells how much each strategy's server got since the last time it was
// asked, in multiples of the calls.
func (l *live) Load(since time.Duration) string {
	calls := l.rate * since.Seconds()
	if l.seen == nil {
		l.seen = make([]int, len(l.worlds))
	}
	var loads []string
	for i, w := range l.worlds {
		total := w.arrivals.Total()
		loads = append(loads, fmt.Sprintf("%s %.1f", w.strategy.Name, float64(total-l.seen[i])/calls))
		l.seen[i] = total
	}
	return strings.Join(loads, ", ")
}
