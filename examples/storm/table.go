package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeTable prints the result for a terminal.
func writeTable(out io.Writer, r result) {
	c := r.Config
	fmt.Fprintf(out, "%v healthy, %v at %.4g %% capacity, %v after it; %.4g calls/s on a server for %.4g/s, seed %d\n\n",
		c.Health, c.Fault, c.FaultCapacity, c.Tail, c.Rate, c.capacity(), c.Seed)
	rows := [][]string{columns}
	for _, m := range r.Rows {
		rows = append(rows, m.cells())
	}
	writeRows(out, rows)
	fmt.Fprintln(out)
	for _, w := range words(c) {
		writeWrapped(out, fmt.Sprintf("%s: %s.", w.Name, w.Meaning))
	}
	if r.hasNative() {
		writeWrapped(out, nativeNote)
	}
	writeWrapped(out, "machine: "+r.Machine.text())
}

// hasNative tells whether the note on grpc-go is needed.
func (r result) hasNative() bool {
	for _, m := range r.Rows {
		if strings.HasPrefix(m.Strategy.Name, "grpc") {
			return true
		}
	}
	return false
}

// writeRows aligns the first column to the left and the others to the right.
func writeRows(out io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(&line, "  %*s", widths[i+1], cell)
		}
		fmt.Fprintln(out, line.String())
	}
}

// lineWidth is about that of the table.
const lineWidth = 113

// writeWrapped prints a text in lines, all but the first indented.
func writeWrapped(out io.Writer, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > lineWidth {
			fmt.Fprintln(out, line)
			line = "  " + word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(out, line)
}
