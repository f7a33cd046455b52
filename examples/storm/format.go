package main

import (
	"fmt"
	"time"
)

// The texts of the table's cells, for terminal and report alike.

// nothing stands where there was nothing to count.
const nothing = "–"

func (m measured) amplificationText() string {
	if m.Calls == 0 {
		return nothing
	}
	return fmt.Sprintf("%.2f", m.Amplification)
}

func (m measured) worstSecondText() string {
	if m.Attempts == 0 {
		return nothing
	}
	return fmt.Sprintf("%.2f", m.WorstSecond)
}

func (s share) text() string {
	percent, ok := s.percent()
	if !ok {
		return nothing
	}
	return fmt.Sprintf("%.1f %%", percent)
}

func (r recovery) text() string {
	switch r.State {
	case recovered:
		return secondsText(r.After)
	case never:
		return "never"
	default:
		return nothing
	}
}

func secondsText(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// columns are the heads of the table, cells the texts of a row.
var columns = []string{"strategy", "calls", "attempts", "amplification", "worst second", "OK in fault", "recovery", "masked", "in health"}

func (m measured) cells() []string {
	return []string{
		m.Strategy.Title,
		fmt.Sprint(m.Calls),
		fmt.Sprint(m.Attempts),
		m.amplificationText(),
		m.worstSecondText(),
		m.InFault.text(),
		m.Recovery.text(),
		m.Masked.text(),
		m.MaskedBefore.text(),
	}
}

// word explains a column.
type word struct{ Name, Meaning string }

func words(c config) []word {
	return []word{
		{"attempts", "counted by the server; everything else is counted by the callers"},
		{"amplification", "attempts / calls, over the whole run"},
		{"worst second", "most attempts within any second / calls offered a second"},
		{"OK in fault", "share of the calls started in the fault that ended OK"},
		{"recovery", fmt.Sprintf("from the end of the fault to the first of %d seconds in a row with at least %.0f %% of their calls OK; never: not in the %v that were played after the fault",
			c.Windows, 100*goodShare, c.Tail)},
		{"masked", "share of the calls with a failed first attempt that ended OK, over the whole run"},
		{"in health", "the same for the calls started before the fault, where only the random errors are to be masked"},
	}
}

// nativeNote says why grpc-go's own retries stay calm here.
const nativeNote = "grpc-go's own retries know no attempt timeout: a call that waits in the server's queue is one attempt until its deadline. " +
	"So they cannot retry it, which adds no load here, and their calls may wait for the whole deadline where the others give up at the attempt timeout."

// machineText tells the use of the machine and what follows from it.
func (m machineLoad) text() string {
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
