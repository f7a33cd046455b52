package main

import (
	"fmt"
	"strings"
	"time"
)

// live is what can be seen of the scenes that are played while they go on.
type live struct {
	config config
	start  time.Time
	scenes []*scene

	seenAt time.Duration // of the last load
	seen   []int         // attempts at C of each scene then
}

func (l *live) now() time.Duration { return time.Since(l.start) }

// part names what is going on.
func (l *live) part() string {
	switch now := l.now(); {
	case now < l.config.Warmup:
		return "health"
	case now < l.config.length():
		return "fault"
	default:
		return "waiting for the last calls"
	}
}

// names are the scenarios that are played.
func (l *live) names() string {
	var names []string
	for i, s := range l.scenes {
		if i == 0 || s.scenario.Name != l.scenes[i-1].scenario.Name {
			names = append(names, s.scenario.title(l.config))
		}
	}
	return strings.Join(names, " and ")
}

// load tells how many attempts reached C since the last time it was asked, in
// multiples of the user calls.
func (l *live) load() string {
	now := l.now()
	calls := l.config.Rate * (now - l.seenAt).Seconds()
	if l.seen == nil {
		l.seen = make([]int, len(l.scenes))
	}
	var text strings.Builder
	for i, s := range l.scenes {
		switch {
		case i == 0 || s.scenario.Name != l.scenes[i-1].scenario.Name:
			fmt.Fprintf(&text, "  %s:", s.scenario.Name)
		default:
			text.WriteByte(',')
		}
		total := s.mesh.c.total()
		fmt.Fprintf(&text, " %s %.1f", s.strategy.Name, float64(total-l.seen[i])/calls)
		l.seen[i] = total
	}
	l.seenAt = now
	return text.String()
}
