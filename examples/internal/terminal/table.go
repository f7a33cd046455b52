package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Word explains something, as a column of a table.
type Word struct{ Name, Meaning string }

// WriteRows writes a table, its first columns aligned to the left, as words are,
// and the others to the right. The first row has all columns; one without cells
// is an empty line.
func WriteRows(out io.Writer, left int, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			width := widths[i]
			if i < left {
				width = -width
			}
			cells = append(cells, fmt.Sprintf("%*s", width, cell))
		}
		fmt.Fprintln(out, strings.Join(cells, "  "))
	}
}

// LineWidth is about that of the programs' tables.
const LineWidth = 113

// WriteWords writes explanations, one after the other.
func WriteWords(out io.Writer, words []Word) {
	for _, w := range words {
		WriteWrapped(out, fmt.Sprintf("%s: %s.", w.Name, w.Meaning))
	}
}

// WriteWrapped writes a text in lines, all but the first indented.
func WriteWrapped(out io.Writer, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > LineWidth {
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
