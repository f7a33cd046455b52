package main

import (
	"fmt"
	"io"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// What -quick demands. A control that stays calm proves nothing, so naive
// retries must multiply as much as budgets must not.
const (
	naiveAtLeast   = 20.0 // multiplier with C down
	tokensAtMost   = 1.3
	adaptiveAtMost = 1.1
	lossAtMost     = 2.0 // points of availability with one sick B, adaptive against naive
)

// demands judges a run. A row that is missing or counted no call meets nothing.
func demands(rows []measured) []terminal.Demand {
	down := func(strategy, bound string, limit float64, met func(x float64) bool) terminal.Demand {
		x, ok := rowOf(rows, "down", strategy).multiplier()
		return terminal.Demand{Text: fmt.Sprintf("C down, %s: multiplier %s %.4g: %.3f", strategy, bound, limit, x), Met: ok && met(x)}
	}
	naive, ok := rowOf(rows, "sick", "naive").OK.Percent()
	adaptive, ok2 := rowOf(rows, "sick", "adaptive").OK.Percent()
	return []terminal.Demand{
		down("naive", "at least", naiveAtLeast, func(x float64) bool { return x >= naiveAtLeast }),
		down("tokens", "at most", tokensAtMost, func(x float64) bool { return x <= tokensAtMost }),
		down("adaptive", "at most", adaptiveAtMost, func(x float64) bool { return x <= adaptiveAtMost }),
		{
			Text: fmt.Sprintf("one sick B, adaptive: at most %.4g points of availability below naive: %.2f %% and %.2f %%", lossAtMost, adaptive, naive),
			Met:  ok && ok2 && naive-adaptive <= lossAtMost,
		},
	}
}

func rowOf(rows []measured, scenario, strategy string) measured {
	for _, m := range rows {
		if m.Scenario.Name == scenario && m.Strategy.Name == strategy {
			return m
		}
	}
	return measured{}
}

// writeVerdict prints every demand and tells whether all were met.
func writeVerdict(out io.Writer, r result) bool {
	return terminal.WriteVerdict(out, demands(r.Rows), r.Machine.Saturated())
}
