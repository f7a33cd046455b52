package main

import (
	"fmt"
	"io"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

var columns = []string{"strategy", "calls", "attempts", "retries in overload", "bound", "worst second", "OK in overload", "OK after it"}

func (m measured) cells() []string {
	return []string{
		m.Strategy.Name, fmt.Sprint(m.Calls), fmt.Sprint(m.Attempts),
		fmt.Sprint(m.Retries), fmt.Sprintf("%.1f", m.Bound), fmt.Sprint(m.Worst), m.InFault.Text(), m.After.Text(),
	}
}

// writeTable prints the result for a terminal.
func writeTable(out io.Writer, r result) {
	c := r.Config
	rows := [][]string{columns}
	for _, m := range r.Rows {
		rows = append(rows, m.cells())
	}
	terminal.WriteRows(out, 1, rows)
	fmt.Fprintln(out)
	words := []terminal.Word{
		{Name: "retries in overload", Meaning: "attempts that arrived at the server in it with the header of a retry"},
		{Name: "bound", Meaning: fmt.Sprintf("%d tokens for each budget + 0.1 for each success of a first attempt in the overload and in the %v before it, which may have been reported in it", capacity, reporting)},
		{Name: "worst second", Meaning: "most retries in any second of the run"},
		{Name: "OK", Meaning: "share of the calls begun in that time that ended OK"},
		{Name: "calls", Meaning: fmt.Sprintf("%.4g a second from %d processes (Poisson, open loop, seed %d), the same for every strategy; %v an attempt, %v a call; %v of health, %v of overload, %v after it",
			c.Rate, c.Processes, c.Seed, c.AttemptTimeout, c.Deadline, c.Health, c.Fault, c.Tail)},
		{Name: "server", Meaning: fmt.Sprintf("%d workers, %v mean service time: %.4g attempts a second; %g %% of the workers in the overload; a queue without an end", c.Workers, c.ServiceTime, c.capacity(), c.Capacity)},
	}
	for _, m := range r.Rows {
		words = append(words, terminal.Word{Name: m.Strategy.Name, Meaning: m.Strategy.About})
	}
	terminal.WriteWords(out, words)
	terminal.WriteWrapped(out, fmt.Sprintf("machine: 99 %% of the calls were started at most %v late.", r.Late.Round(100*time.Microsecond)))
}

// demands judges a run: the shared budget keeps its promise, and without it the
// processes' budgets add up, or the run proves nothing.
func demands(r result) []terminal.Demand {
	byName := make(map[string]measured)
	for _, m := range r.Rows {
		byName[m.Strategy.Name] = m
	}
	local, shared := byName[strategies[1].Name], byName[strategies[2].Name]
	return []terminal.Demand{
		{
			Text: fmt.Sprintf("one budget for all: at least 10 and at most %.1f retries in the overload: %d", shared.Bound, shared.Retries),
			Met:  shared.Retries >= 10 && float64(shared.Retries) <= shared.Bound,
		},
		{
			Text: fmt.Sprintf("a budget in each process: more than that, and at least twice as many: %d", local.Retries),
			Met:  float64(local.Retries) > shared.Bound && local.Retries >= 2*shared.Retries,
		},
	}
}

// writeVerdict prints every demand and tells whether all were met.
func writeVerdict(out io.Writer, r result) bool {
	return terminal.WriteVerdict(out, demands(r), r.Late > r.Config.AttemptTimeout/4)
}
