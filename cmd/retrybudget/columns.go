package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// writeColumns writes rows of numbers under their titles, aligned to the right.
func writeColumns(out io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			cells = append(cells, fmt.Sprintf("%*s", widths[i], cell))
		}
		fmt.Fprintln(out, strings.Join(cells, "   "))
	}
}

// writeFields writes names with their values in a column. A field without a name
// goes on with the one before.
func writeFields(out io.Writer, fields [][2]string) {
	for _, f := range fields {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-21s %s", f[0], f[1]), " "))
	}
}
