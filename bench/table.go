package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// writeTable writes rows as a Markdown table with aligned columns; the first row
// is its head. Columns from right on are aligned to the right.
func writeTable(w io.Writer, rows [][]string, right int) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i >= right {
				cell = pad + cell
			} else {
				cell += pad
			}
			fmt.Fprintf(w, "| %s ", cell)
		}
		fmt.Fprintln(w, "|")
		if n > 0 {
			continue
		}
		for i := range row {
			if i >= right {
				fmt.Fprintf(w, "|%s:", strings.Repeat("-", width[i]+1))
			} else {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width[i]+2))
			}
		}
		fmt.Fprintln(w, "|")
	}
}

// writeResults writes one row for every contestant that was measured.
func writeResults(w io.Writer, results []result) {
	rows := [][]string{{"section", "contestant", "ns/op", "spread", "B/op", "allocs/op", "÷ go-grpc-middleware", "÷ bare"}}
	for _, r := range results {
		for _, e := range r.entries {
			if len(e.samples) == 0 {
				continue
			}
			rows = append(rows, []string{
				r.section.name,
				e.name,
				nanoseconds(median(each(e.samples, nsOf))),
				fmt.Sprintf("%.0f %%", 100*spread(each(e.samples, nsOf))),
				fmt.Sprintf("%.0f", median(each(e.samples, bytesOf))),
				fmt.Sprintf("%.0f", median(each(e.samples, allocsOf))),
				times(ratio(e.samples, r.samplesOf(middleware))),
				times(ratio(e.samples, r.samplesOf(r.section.bare))),
			})
		}
	}
	writeTable(w, rows, 2)
}

// samplesOf returns those of a contestant, nil if it takes no part.
func (r *result) samplesOf(name string) []sample {
	i := slices.IndexFunc(r.entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		return nil
	}
	return r.entries[i].samples
}

// nanoseconds shows a time with three digits or more.
func nanoseconds(ns float64) string {
	digits := 0
	for limit := 100.0; ns < limit && digits < 2; limit /= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f", digits, ns)
}

// times shows a ratio, or a dash where there is none.
func times(ratio float64) string {
	if math.IsNaN(ratio) {
		return "–"
	}
	return fmt.Sprintf("%.2f", ratio)
}
