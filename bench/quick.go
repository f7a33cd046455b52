package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
)

const (
	// checkedOperations is how many operations allocations are counted over.
	checkedOperations = 10_000
	// triedOperations is how many show that an unchecked contestant works.
	triedOperations = 100
	// stray is the share of an allocation that others in the process may make
	// meanwhile.
	stray = 0.05
)

// check counts allocations, measures no times, and returns the number of
// contestants that allocate more than they may. What is not limited runs all the
// same, so that it is known to work.
func check(ctx context.Context, w io.Writer, all []section) (over int, err error) {
	rows := [][]string{{"section", "contestant", "allocs/op", "B/op", "limit", ""}}
	for _, sec := range all {
		for _, c := range sec.contestants {
			if ctx.Err() != nil {
				return over, ctx.Err()
			}
			s, err := countAllocs(c, sec.parts())
			if err != nil {
				return over, fmt.Errorf("%s, %s: %w", sec.name, c.name, err)
			}
			limit, verdict := "–", ""
			if c.maxAllocs >= 0 {
				limit, verdict = strconv.Itoa(c.maxAllocs), "ok"
			}
			if c.tooMany(s) {
				over++
				verdict = "TOO MANY"
			}
			rows = append(rows, []string{sec.name, c.name, fmt.Sprintf("%.2f", s.allocs), fmt.Sprintf("%.0f", s.bytes), limit, verdict})
		}
	}
	writeTable(w, rows, 2)
	return over, nil
}

// tooMany reports whether a sample has more allocations than c may make.
func (c contestant) tooMany(s sample) bool {
	return c.maxAllocs >= 0 && s.allocs > float64(c.maxAllocs)+stray
}

// countAllocs returns the least of three counts, for a part: the rest of the process can
// only add to them.
func countAllocs(c contestant, parts int) (sample, error) {
	s, err := c.open()
	if err != nil {
		return sample{}, err
	}
	defer s.close()
	n := triedOperations
	if c.maxAllocs >= 0 {
		n = checkedOperations
	}
	n = max(n/parts, 1)
	if err := s.run(n); err != nil { // what happens only once happens here
		return sample{}, err
	}
	least := sample{allocs: math.Inf(1)}
	for range 3 {
		got, err := measure(s, n, parts)
		if err != nil {
			return sample{}, err
		}
		if got.allocs < least.allocs {
			least = got
		}
	}
	return least, nil
}
