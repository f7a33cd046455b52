package main

import (
	"fmt"
	"io"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// What -quick demands. A control that recovers proves nothing, so naive must
// collapse as much as retrybudget must not.
const (
	naiveAbove        = 2.0  // amplification above it
	retrybudgetAtMost = 1.15 // amplification not above it
)

// demands judges a run that has rows for naive and retrybudget.
func demands(rows []measured) []terminal.Demand {
	naive, budget := rowOf(rows, "naive"), rowOf(rows, "retrybudget")
	return []terminal.Demand{
		{Text: fmt.Sprintf("naive amplification above %.4g: %.2f", naiveAbove, naive.Amplification), Met: naive.Amplification > naiveAbove},
		{Text: fmt.Sprintf("naive not recovered by the end: %s", naive.Recovery.text()), Met: naive.Recovery.State == never},
		{Text: fmt.Sprintf("retrybudget amplification at most %.4g: %.2f", retrybudgetAtMost, budget.Amplification), Met: budget.Calls > 0 && budget.Amplification <= retrybudgetAtMost},
		{Text: fmt.Sprintf("retrybudget recovered: %s", budget.Recovery.text()), Met: budget.Recovery.State == recovered},
	}
}

func rowOf(rows []measured, name string) measured {
	for _, m := range rows {
		if m.Strategy.Name == name {
			return m
		}
	}
	return measured{}
}

// judged is the scenario of the demands.
const judged = "overload"

// writeVerdict prints every demand and tells whether all were met. The other
// scenarios have no demands: their faults end when they are over, whatever
// clients do.
func writeVerdict(out io.Writer, r result) bool {
	if r.Config.Scenario != judged {
		fmt.Fprintf(out, "quick: nothing is judged in -scenario %s, only in %s\n", r.Config.Scenario, judged)
		return true
	}
	return terminal.WriteVerdict(out, demands(r.Rows), r.Machine.Saturated())
}
