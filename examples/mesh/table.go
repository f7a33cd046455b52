package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// columns are the heads of the table, cells the texts of a row.
var columns = []string{"scenario", "strategy", "user calls", "at A", "at B", "at C", "multiplier", "worst second", "availability"}

// left are the columns that hold words.
const left = 2

// nothing stands where there was nothing to count.
const nothing = "–"

func (m measured) cells(c config) []string {
	multiplier, worst := nothing, nothing
	if x, ok := m.multiplier(); ok {
		multiplier, worst = fmt.Sprintf("%.2f", x), fmt.Sprintf("%.2f", m.WorstSecond)
	}
	return []string{
		m.Scenario.title(c), m.Strategy.Title,
		fmt.Sprint(m.Calls), fmt.Sprint(m.A), fmt.Sprint(m.B), fmt.Sprint(m.C),
		multiplier, worst, m.OK.text(),
	}
}

func (s share) text() string {
	percent, ok := s.percent()
	if !ok {
		return nothing
	}
	return fmt.Sprintf("%.1f %%", percent)
}

// word explains something.
type word struct{ Name, Meaning string }

var words = []word{
	{"at A, at B, at C", "attempts that arrived there, counted by the servers from the beginning of the fault on"},
	{"multiplier", "attempts at C / user calls"},
	{"worst second", "most attempts at C within any second / user calls offered a second"},
	{"availability", "share of the user calls that ended OK"},
}

// parameters says what was played, so that it can be played again.
func parameters(r result) []word {
	c := r.Config
	all := []word{
		{"calls", fmt.Sprintf("%.4g user calls a second (Poisson, open loop, seed %d), the same at the same moments for every strategy; %v of health, which funds the budgets, then %v of fault, which is what the table counts",
			c.Rate, c.Seed, c.Warmup, c.Fault)},
		{"mesh", fmt.Sprintf("driver -> A -> B -> C, gRPC over loopback TCP; %d instances of B under round_robin; up to %d attempts on each edge; a deadline of %v for a user call and all that is done for it, no attempt timeout unless said below",
			instances, attempts, c.Deadline)},
		{"C", fmt.Sprintf("%d workers, %v mean service time, half of it fixed and half exponential: %.4g attempts a second; a queue without an end", c.Workers, c.ServiceTime, c.capacity())},
	}
	for _, name := range c.Scenarios {
		s, _ := scenarioNamed(name) // validated
		all = append(all, word{s.title(c), s.about(c)})
	}
	for _, name := range c.Strategies {
		s, _ := strategyNamed(name) // validated
		all = append(all, word{s.Title, s.About})
	}
	var funds []string
	for _, m := range r.Rows {
		if m.HasFunds {
			funds = append(funds, fmt.Sprintf("%s, %s: %.1f / %.1f / %.1f", m.Scenario.title(c), m.Strategy.Title, m.Funds[0], m.Funds[1], m.Funds[2]))
		}
	}
	if funds != nil {
		all = append(all, word{"tokens when the fault began, driver / A / each B on average", strings.Join(funds, "; ")})
	}
	return all
}

// writeTable prints the result for a terminal.
func writeTable(out io.Writer, r result) {
	rows := [][]string{columns}
	for i, m := range r.Rows {
		if i > 0 && m.Scenario.Name != r.Rows[i-1].Scenario.Name {
			rows = append(rows, nil)
		}
		rows = append(rows, m.cells(r.Config))
	}
	writeRows(out, rows)
	fmt.Fprintln(out)
	for _, w := range append(words, parameters(r)...) {
		writeWrapped(out, fmt.Sprintf("%s: %s.", w.Name, w.Meaning))
	}
	writeWrapped(out, "machine: "+r.Machine.text()+".")
}

// writeRows aligns the first columns to the left and the others to the right.
func writeRows(out io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if i < left {
				cells = append(cells, fmt.Sprintf("%-*s", widths[i], cell))
			} else {
				cells = append(cells, fmt.Sprintf("%*s", widths[i], cell))
			}
		}
		fmt.Fprintln(out, strings.Join(cells, "  "))
	}
}

// lineWidth is about that of the table.
const lineWidth = 113

// writeWrapped prints a text in lines, all but the first indented.
func writeWrapped(out io.Writer, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > lineWidth {
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
