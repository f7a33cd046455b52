package main

import (
	"fmt"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
	"github.com/retrybudget/retrybudget/examples/internal/tally"
	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// The texts of the table's cells, for terminal and report alike.

func ratioText(ratio float64, ok bool) string {
	if !ok {
		return tally.Nothing
	}
	return fmt.Sprintf("%.2f", ratio)
}

func (r recovery) text() string {
	switch r.State {
	case recovered:
		return secondsText(r.After)
	case never:
		return "never"
	default:
		return tally.Nothing
	}
}

func secondsText(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// column is one of the table: its head, what that means and what is in it.
type column struct {
	Name    string
	meaning func(c config) string // nil if it goes without saying
	cell    func(m measured) string
}

var (
	colStrategy = column{"strategy", nil, func(m measured) string { return m.Strategy.Title }}
	colCalls    = column{"calls", nil, func(m measured) string { return fmt.Sprint(m.Calls) }}
	colAttempts = column{
		"attempts", says("counted by the server; everything else is counted by the callers"),
		func(m measured) string { return fmt.Sprint(m.Attempts) },
	}
	colAmplification = column{
		"amplification", says("attempts / calls, over the whole run"),
		func(m measured) string { return ratioText(m.Amplification, m.Calls > 0) },
	}
	colLoad = column{
		"load in fault", says("attempts that arrived in the fault / calls started in it"),
		func(m measured) string { return ratioText(m.Load, m.InFault.Whole > 0) },
	}
	colWorst = column{
		"worst second", says("most attempts within any second / calls offered a second"),
		func(m measured) string { return ratioText(m.WorstSecond, m.Attempts > 0) },
	}
	colInFault = column{
		"OK in fault", says("share of the calls started in the fault that ended OK"),
		func(m measured) string { return m.InFault.Text() },
	}
	colRecovery = column{
		"recovery",
		func(c config) string {
			return fmt.Sprintf("from the end of the fault to the first of %d seconds in a row with at least %.0f %% of their calls OK; never: not in the %v that were played after the fault",
				c.Windows, 100*goodShare, c.Tail)
		},
		func(m measured) string { return m.Recovery.text() },
	}
	colMasked = column{
		"masked", says("share of the calls with a failed first attempt that ended OK, over the whole run"),
		func(m measured) string { return m.Masked.Text() },
	}
	colMaskedBefore = column{
		"in health", says("the same for the calls started before the fault, where only the random errors are to be masked"),
		func(m measured) string { return m.MaskedBefore.Text() },
	}
)

// The columns of a fault that may outlive itself, and of one that ends.
var (
	wholeRun = []column{colStrategy, colCalls, colAttempts, colAmplification, colWorst, colInFault, colRecovery, colMasked, colMaskedBefore}
	inFault  = []column{colStrategy, colCalls, colAttempts, colLoad, colWorst, colInFault, colRecovery, colMasked, colMaskedBefore}
)

func says(meaning string) func(config) string { return func(config) string { return meaning } }

func (c config) heads() []string {
	var heads []string
	for _, col := range c.scenario().columns {
		heads = append(heads, col.Name)
	}
	return heads
}

func (c config) cells(m measured) []string {
	var cells []string
	for _, col := range c.scenario().columns {
		cells = append(cells, col.cell(m))
	}
	return cells
}

// words explain the columns.
func words(c config) []terminal.Word {
	var all []terminal.Word
	for _, col := range c.scenario().columns {
		if col.meaning != nil {
			all = append(all, terminal.Word{Name: col.Name, Meaning: col.meaning(c)})
		}
	}
	return all
}

// nativeNote says what becomes of grpc-go's own retries where attempts time out.
const nativeNote = "grpc-go's own retries know no attempt timeout: a call that waits in the server's queue is one attempt until its deadline. " +
	"So they cannot retry it, which adds no load here, and their calls may wait for the whole deadline where the others give up at the attempt timeout."

// machineText tells the use of the machine and what follows from it.
func machineText(m machine.Load) string {
	busy := "processor time not known on this system"
	if m.Measured {
		busy = fmt.Sprintf("this program, clients and servers together, used %.0f %% of %d CPUs", 100*m.Busy, m.CPUs)
	}
	text := fmt.Sprintf("%s; 99 %% of the calls started within %.1f ms of their moment", busy, float64(m.Late)/float64(time.Millisecond))
	if m.Saturated() {
		return text + ". That is too much: the machine was in the way, do not trust these numbers. Try a lower -rate (with fewer -workers) or fewer -strategies."
	}
	return text + ". The machine was not in the way: the servers' capacity is waiting, not computing."
}
