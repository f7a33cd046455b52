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

	seenAt time.Duration // of the last load
	seen   []int         // attempts of each world then
}

// now is how much of the story is over.
func (l *live) now() time.Duration {
	return min(time.Since(l.start), l.story.length())
}

// load tells how much each strategy's server got since the last time it was
// asked, in multiples of the calls.
func (l *live) load() string {
	now := l.now()
	calls := l.rate * (now - l.seenAt).Seconds()
	if l.seen == nil {
		l.seen = make([]int, len(l.worlds))
	}
	var loads []string
	for i, w := range l.worlds {
		total := w.service.total()
		if calls > 0 {
			loads = append(loads, fmt.Sprintf("%s %.1f", w.strategy.Name, float64(total-l.seen[i])/calls))
		}
		l.seen[i] = total
	}
	l.seenAt = now
	return strings.Join(loads, ", ")
}
