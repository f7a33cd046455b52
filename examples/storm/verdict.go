package main

import (
	"fmt"
	"io"
)

// What -quick demands. A control that recovers proves nothing, so naive must
// collapse as much as retrybudget must not.
const (
	naiveAbove        = 2.0  // amplification above it
	retrybudgetAtMost = 1.15 // amplification not above it
)

// demand is one thing -quick checks.
type demand struct {
	Text string
	Met  bool
}

// demands judges a run that has rows for naive and retrybudget.
func demands(rows []measured) []demand {
	naive, budget := rowOf(rows, "naive"), rowOf(rows, "retrybudget")
	return []demand{
		{fmt.Sprintf("naive amplification above %.4g: %.2f", naiveAbove, naive.Amplification), naive.Amplification > naiveAbove},
		{fmt.Sprintf("naive not recovered by the end: %s", naive.Recovery.text()), naive.Recovery.State == never},
		{fmt.Sprintf("retrybudget amplification at most %.4g: %.2f", retrybudgetAtMost, budget.Amplification), budget.Calls > 0 && budget.Amplification <= retrybudgetAtMost},
		{fmt.Sprintf("retrybudget recovered: %s", budget.Recovery.text()), budget.Recovery.State == recovered},
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

// writeVerdict prints every demand and tells whether all were met.
func writeVerdict(out io.Writer, r result) bool {
	met := true
	for _, d := range demands(r.Rows) {
		mark := "ok    "
		if !d.Met {
			mark, met = "FAILED", false
		}
		fmt.Fprintf(out, "quick: %s %s\n", mark, d.Text)
	}
	if !met && r.Machine.Saturated() {
		fmt.Fprintln(out, "quick: the machine was in the way, which alone may have caused that: run it again when nothing else is running")
	}
	return met
}
