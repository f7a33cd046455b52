package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// writeTable prints the result for a terminal.
func writeTable(out io.Writer, r result) {
	c := r.Config
	fmt.Fprintf(out, "%s: %v healthy, %v of fault (%s), %v after it; %.4g calls/s on a server for %.4g/s, seed %d\n\n",
		c.Scenario, c.Health, c.Fault, c.scenario().label(c), c.Tail, c.Rate, c.capacity(), c.Seed)
	if w := r.Machine.Warning(); w != "" {
		fmt.Fprintf(out, "%s\n\n", w)
	}
	rows := [][]string{c.heads()}
	for _, m := range r.Rows {
		rows = append(rows, c.cells(m))
	}
	terminal.WriteRows(out, 1, rows)
	fmt.Fprintln(out)
	terminal.WriteWords(out, []terminal.Word{{Name: "fault", Meaning: c.scenario().about(c)}})
	terminal.WriteWords(out, words(c))
	if note := r.note(); note != "" {
		terminal.WriteWrapped(out, note)
	}
	terminal.WriteWrapped(out, "machine: "+machineText(r.Machine))
}

// note is needed where attempts time out and grpc-go's own retries ran.
func (r result) note() string {
	if !r.Config.scenario().TimesOut {
		return ""
	}
	for _, m := range r.Rows {
		if strings.HasPrefix(m.Strategy.Name, "grpc") {
			return nativeNote
		}
	}
	return ""
}
