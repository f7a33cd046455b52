// Package tally makes numbers of what the example programs counted.
package tally

import (
	"fmt"
	"slices"
	"time"
)

// Nothing stands where there was nothing to count.
const Nothing = "–"

// Share is Part of Whole; without a whole there is nothing to say.
type Share struct{ Part, Whole int }

// Add counts one more, to the part if ok.
func (s *Share) Add(ok bool) {
	s.Whole++
	if ok {
		s.Part++
	}
}

// Percent is meaningless without a whole, which the second value tells.
func (s Share) Percent() (float64, bool) {
	if s.Whole == 0 {
		return 0, false
	}
	return 100 * float64(s.Part) / float64(s.Whole), true
}

// Text is the share for a cell of a table.
func (s Share) Text() string {
	percent, ok := s.Percent()
	if !ok {
		return Nothing
	}
	return fmt.Sprintf("%.1f %%", percent)
}

// MostIn is the largest number of moments in any window of a length. The
// moments are in order.
func MostIn(window time.Duration, moments []time.Duration) int {
	most, first := 0, 0
	for i, at := range moments {
		for moments[first] <= at-window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Percentile is the value that p per cent of the values do not exceed, 0 if there
// are none.
func Percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*p/100]
}
