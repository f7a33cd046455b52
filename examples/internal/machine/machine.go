// Package machine tells whether the machine was in the way of a run. If it was,
// the run measured the machine and not the strategies.
package machine

import (
	"runtime"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

// Load is what a run asked of the machine, and how well it served.
type Load struct {
	CPUs     int
	Busy     float64       // share of the processors' time that this program used
	Measured bool          // false where the system does not tell the processor time
	Late     time.Duration // how long after its moment a call was started, 99th percentile
	MaxLate  time.Duration // more than this changes the outcome of calls
}

const (
	// TooBusy is the share of the processors' time from which on a run waits for
	// them.
	TooBusy = 0.75
	tooLate = 0.25 // share of the attempt timeout
)

// Saturated tells whether the numbers of the run should not be trusted.
func (l Load) Saturated() bool {
	return (l.Measured && l.Busy > TooBusy) || l.Late > l.MaxLate
}

// Warning is what stands above the numbers of a run, "" if they can be trusted.
func (l Load) Warning() string {
	if !l.Saturated() {
		return ""
	}
	return "WARNING: the machine was in the way, do not trust these numbers; the last lines say why"
}

// Worse joins the loads of two parts of a run: the worse of each value.
func (l Load) Worse(o Load) Load {
	return Load{
		CPUs:     max(l.CPUs, o.CPUs),
		Busy:     max(l.Busy, o.Busy),
		Measured: l.Measured && o.Measured,
		Late:     max(l.Late, o.Late),
		MaxLate:  max(l.MaxLate, o.MaxLate),
	}
}

// Meter measures the use of the processors over a time.
type Meter struct {
	start time.Time
	used  time.Duration
	known bool
}

// Start starts a meter.
func Start() Meter {
	used, known := processorTime()
	return Meter{start: time.Now(), used: used, known: known}
}

// Stop tells the load since the start, given how late the calls were and the
// attempt timeout.
func (m Meter) Stop(late []time.Duration, attempt time.Duration) Load {
	used, known := processorTime()
	load := Load{
		CPUs:     runtime.GOMAXPROCS(0),
		Measured: known && m.known,
		Late:     tally.Percentile(late, 99),
		MaxLate:  time.Duration(tooLate * float64(attempt)),
	}
	if span := time.Since(m.start); load.Measured && span > 0 {
		load.Busy = (used - m.used).Seconds() / (span.Seconds() * float64(load.CPUs))
	}
	return load
}
