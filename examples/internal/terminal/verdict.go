package terminal

import (
	"fmt"
	"io"
)

// Demand is one thing that -quick checks.
type Demand struct {
	Text string
	Met  bool
}

// WriteVerdict writes every demand and tells whether all were met. saturated says
// that the machine was in the way, which may be why one was not.
func WriteVerdict(out io.Writer, demands []Demand, saturated bool) bool {
	met := true
	for _, d := range demands {
		mark := "ok    "
		if !d.Met {
			mark, met = "FAILED", false
		}
		fmt.Fprintf(out, "quick: %s %s\n", mark, d.Text)
	}
	if !met && saturated {
		fmt.Fprintln(out, "quick: the machine was in the way, which alone may have caused that: run it again when nothing else is running")
	}
	return met
}
