package overload_test

import (
	"flag"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/internal/overload"
)

var seeds = flag.Int("seeds", 0, "make the full table, the median of so many seeds; 0 means one seed of shorter worlds")

// columns are the strategies of the table, the first of them what "none" means
// in the bounds.
var columns = []overload.Strategy{
	overload.NoRetries(), overload.TokenBucket(), overload.Adaptive(), overload.Throttle(), overload.Unlimited(),
}

// TestTable proves the bounds of docs/budgets.md and prints its table, which is
// that of
//
//	go -C internal/overload test -timeout 30m -run TestTable -seeds 5
func TestTable(t *testing.T) {
	size, n := overload.FullSize(), *seeds
	if n == 0 {
		size, n = overload.SmallSize(), 1
	}
	promised, losses := specs(size), lossSpecs(size)
	if *seeds == 0 { // only what has a bound
		losses = nil
		leaveOut(promised, throttle)
	}
	if raceDetector { // for which the longest worlds of all hold nothing new
		leaveOut(promised, unlimited)
	}
	// The live heap of a world is tiny, so collecting at twice its size means
	// collecting all the time.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	r := newRuns(n)
	for _, s := range append(promised, losses...) {
		s.addTo(r)
	}
	r.live(t)
	if t.Failed() {
		return
	}

	fmt.Printf("Median of %d seeds, and in brackets what must hold:\n\n%s", n, heading())
	for _, s := range promised {
		s.check(t, r)
		fmt.Println(s.line(r))
	}
	if losses != nil {
		fmt.Printf("\nWhere budgets cost something:\n\n%s", heading())
	}
	for _, s := range losses {
		fmt.Println(s.line(r))
	}
}

func leaveOut(rows []spec, strategy string) {
	for i := range rows {
		rows[i].leaveOut = append(slices.Clone(rows[i].leaveOut), strategy)
	}
}

// addTo adds the worlds of the row to r.
func (s spec) addTo(r *runs) {
	for _, with := range columns {
		if slices.Contains(s.leaveOut, with.Name) {
			continue
		}
		for _, scenario := range s.of(with) {
			r.add(s.name, scenario, with)
		}
		if s.beside != nil {
			r.add(s.name, *s.beside, with)
		}
	}
}

// of returns the row's worlds of a strategy. Without a budget there is no need to
// look for the worst one.
func (s spec) of(with overload.Strategy) []overload.Scenario {
	if with.Name == unlimited {
		return s.scenarios[len(s.scenarios)-1:]
	}
	return s.scenarios
}

// values returns the row's value of every seed for a strategy.
func (s spec) values(r *runs, with overload.Strategy) []float64 {
	if slices.Contains(s.leaveOut, with.Name) {
		return nil
	}
	scenarios := s.of(with)
	values := r.measure(scenarios[0], with, s.measure)
	for _, scenario := range scenarios[1:] {
		for i, v := range r.measure(scenario, with, s.measure) {
			values[i] = max(values[i], v)
		}
	}
	if s.beside != nil {
		values = minus(values, r.measure(*s.beside, with, s.measure))
	}
	if s.later != nil && with.Name != none {
		values = minus(values, s.values(r, columns[0]))
	}
	return values
}

func (s spec) check(t *testing.T, r *runs) {
	t.Helper()
	for _, with := range columns {
		if s.failures > 0 && *seeds > 0 && !slices.Contains(s.leaveOut, with.Name) {
			method := s.scenarios[0].Methods - 1
			of := r.measure(s.scenarios[0], with, failures(method))
			assert.GreaterOrEqual(t, slices.Min(of), float64(s.failures), "%s, %s: too few calls failed at first", s.name, with.Name)
		}
		if b, has := s.promised[with.Name]; has && !slices.Contains(s.leaveOut, with.Name) {
			values := s.values(r, with)
			assert.True(t, b.holds(values, s.values(r, columns[0])), "%s, %s: %v is not %s", s.name, with.Name, values, b.text)
		}
	}
}

func heading() string {
	line := "| |"
	for _, with := range columns {
		line += " " + with.Name + " |"
	}
	return line + "\n|---|" + strings.Repeat("---|", len(columns)) + "\n"
}

func (s spec) line(r *runs) string {
	line := "| " + s.name + " |"
	for _, with := range columns {
		values := s.values(r, with)
		if values == nil {
			line += " |"
			continue
		}
		text := s.format(median(values))
		if s.later != nil && with.Name != none && !math.IsInf(median(values), 0) {
			text = "+" + text
		}
		if b, has := s.promised[with.Name]; has {
			text += " (" + b.text + ")"
		}
		line += " " + text + " |"
	}
	return line
}

// minus returns a − b, seed by seed.
func minus(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
