// Package spelling finds what a misspelt name was meant to be, for the errors of the
// packages that read configurations.
package spelling

import "strings"

// mostLetters is more than any name has, misspelt or not.
const mostLetters = 40

// Nearest returns the known name that name is a misspelling of, "" if there is none:
// the same but for case and signs, or with a letter or two added, left out or
// changed.
func Nearest(name string, known []string) string {
	plain := Letters(name)
	if len(plain) > mostLetters {
		return ""
	}
	for _, k := range known {
		if distance(plain, Letters(k)) <= min(2, len(k)/5) {
			return k
		}
	}
	return ""
}

// Letters returns the letters of a name in lower case.
func Letters(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		case c >= 'a' && c <= 'z':
			return c
		default:
			return -1
		}
	}, name)
}

// distance returns the number of letters to add, leave out or change to make a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
