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

	seen []int // attempts at C of each scene when load was last asked
}

// Length is how long user calls are started for.
func (l *live) Length() time.Duration { return l.config.length() }

// Now is the time since the start.
func (l *live) Now() time.Duration { return time.Since(l.start) }

// Part names what is going on.
func (l *live) Part() string {
	switch now := l.Now(); {
	case now < l.config.Warmup:
		return "health"
	case now < l.config.length():
		return "fault"
	default:
		return "waiting for the last calls"
	}
}

// Label says in which scenarios, too.
func (l *live) Label() string { return l.names() + ": " + l.Part() }

// Head names the scenarios and says what the numbers are.
func (l *live) Head() string {
	return l.names() + "; numbers are attempts at C for each user call"
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

// Load tells how many attempts reached C since the last time it was asked, in
// multiples of the user calls.
func (l *live) Load(since time.Duration) string {
	calls := l.config.Rate * since.Seconds()
	if l.seen == nil {
		l.seen = make([]int, len(l.scenes))
	}
	var text strings.Builder
	for i, s := range l.scenes {
		switch {
		case i == 0:
			fmt.Fprintf(&text, "%s:", s.scenario.Name)
		case s.scenario.Name != l.scenes[i-1].scenario.Name:
			fmt.Fprintf(&text, "  %s:", s.scenario.Name)
		default:
			text.WriteByte(',')
		}
		total := s.mesh.c.Total()
		fmt.Fprintf(&text, " %s %.1f", s.strategy.Name, float64(total-l.seen[i])/calls)
		l.seen[i] = total
	}
	return text.String()
}
