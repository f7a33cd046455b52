package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
	"github.com/retrybudget/retrybudget/examples/internal/tally"
	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// columns are the heads of the table, cells the texts of a row.
var columns = []string{"scenario", "strategy", "user calls", "at A", "at B", "at C", "multiplier", "worst second", "availability"}

// left are the columns that hold words.
const left = 2

func (m measured) cells(c config) []string {
	multiplier, worst := tally.Nothing, tally.Nothing
	if x, ok := m.multiplier(); ok {
		multiplier, worst = fmt.Sprintf("%.2f", x), fmt.Sprintf("%.2f", m.WorstSecond)
	}
	return []string{
		m.Scenario.title(c), m.Strategy.Title,
		fmt.Sprint(m.Calls), fmt.Sprint(m.A), fmt.Sprint(m.B), fmt.Sprint(m.C),
		multiplier, worst, m.OK.Text(),
	}
}

var words = []terminal.Word{
	{Name: "at A, at B, at C", Meaning: "attempts that arrived there, counted by the servers from the beginning of the fault on"},
	{Name: "multiplier", Meaning: "attempts at C / user calls"},
	{Name: "worst second", Meaning: "most attempts at C within any second / user calls offered a second"},
	{Name: "availability", Meaning: "share of the user calls that ended OK"},
}

// parameters says what was played, so that it can be played again.
func parameters(r result) []terminal.Word {
	c := r.Config
	all := []terminal.Word{
		{Name: "calls", Meaning: fmt.Sprintf("%.4g user calls a second (Poisson, open loop, seed %d), the same at the same moments for every strategy; %v of health, which funds the budgets, then %v of fault, which is what the table counts",
			c.Rate, c.Seed, c.Warmup, c.Fault)},
		{Name: "mesh", Meaning: fmt.Sprintf("driver -> A -> B -> C, gRPC over loopback TCP; %d instances of B under round_robin; up to %d attempts on each edge; a deadline of %v for a user call and all that is done for it, no attempt timeout unless said below",
			instances, attempts, c.Deadline)},
		{Name: "C", Meaning: fmt.Sprintf("%d workers, %v mean service time, half of it fixed and half exponential: %.4g attempts a second; a queue without an end", c.Workers, c.ServiceTime, c.capacity())},
	}
	for _, name := range c.Scenarios {
		s, _ := scenarioNamed(name) // validated
		all = append(all, terminal.Word{Name: s.title(c), Meaning: s.about(c)})
	}
	for _, name := range c.Strategies {
		s, _ := strategyNamed(name) // validated
		all = append(all, terminal.Word{Name: s.Title, Meaning: s.About})
	}
	var funds []string
	for _, m := range r.Rows {
		if m.HasFunds {
			funds = append(funds, fmt.Sprintf("%s, %s: %.1f / %.1f / %.1f", m.Scenario.title(c), m.Strategy.Title, m.Funds[0], m.Funds[1], m.Funds[2]))
		}
	}
	if funds != nil {
		all = append(all, terminal.Word{Name: "tokens when the fault began, driver / A / each B on average", Meaning: strings.Join(funds, "; ")})
	}
	return all
}

// writeTable prints the result for a terminal.
func writeTable(out io.Writer, r result) {
	if w := r.Machine.Warning(); w != "" {
		fmt.Fprintf(out, "%s\n\n", w)
	}
	rows := [][]string{columns}
	for i, m := range r.Rows {
		if i > 0 && m.Scenario.Name != r.Rows[i-1].Scenario.Name {
			rows = append(rows, nil)
		}
		rows = append(rows, m.cells(r.Config))
	}
	terminal.WriteRows(out, left, rows)
	fmt.Fprintln(out)
	terminal.WriteWords(out, words)
	terminal.WriteWords(out, parameters(r))
	terminal.WriteWrapped(out, "machine: "+machineText(r.Machine))
}

// machineText tells the use of the machine and what follows from it.
func machineText(m machine.Load) string {
	used := "processor time unknown"
	if m.Measured {
		used = fmt.Sprintf("this program used %.0f %% of %d CPUs during the fault", 100*m.Busy, m.CPUs)
	}
	text := fmt.Sprintf("%s; 99 %% of the calls were started at most %v late", used, m.Late.Round(100*time.Microsecond))
	if m.Saturated() {
		return text + fmt.Sprintf(". That is too much, above %.0f %% or %v: the machine was in the way, do not trust these numbers.", 100*machine.TooBusy, m.MaxLate)
	}
	return text + ". That is fine: the machine was not in the way."
}
