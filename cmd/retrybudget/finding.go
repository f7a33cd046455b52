package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// severity says whether a finding is a problem by itself.
type severity string

const (
	isError   severity = "error"
	isWarning severity = "warning"
)

// finding is something that check found. Its JSON form is part of the command's
// interface.
type finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // counted from 1; 0 when there is none
	Path     string   `json:"path,omitempty"` // in the names of the file's format
	Severity severity `json:"severity"`
	Kind     string   `json:"kind"` // see kinds
	Message  string   `json:"message"`
}

// String returns the line that is printed for the finding, as compilers do.
func (f finding) String() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Line)
	}
	text := f.Message
	if f.Path != "" {
		text = f.Path + " " + text
	}
	return fmt.Sprintf("%s: %s: %s [%s]", place, f.Severity, text, f.Kind)
}

// sortFindings sorts by line, those without one first.
func sortFindings(all []finding) {
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(a.Line, b.Line) })
}

func count(all []finding, s severity) (n int) {
	for _, f := range all {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// writeJSON writes v with indentation, for people too.
func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
