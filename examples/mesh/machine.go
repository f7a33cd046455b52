package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// machineLoad tells whether the machine was in the way. If it was, the run
// measured the machine and not the strategies.
type machineLoad struct {
	CPUs     int
	Busy     float64       // share of the processors' time that this program used
	Measured bool          // false where the system does not tell the processor time
	Late     time.Duration // how long after its moment a call was started, 99th percentile
	MaxLate  time.Duration // more than this changes the outcome of calls
}

const (
	tooBusy = 0.75 // share of the processors' time
	tooLate = 0.25 // share of the attempt timeout
)

// Saturated tells whether the numbers of the run should not be trusted.
func (m machineLoad) Saturated() bool {
	return (m.Measured && m.Busy > tooBusy) || m.Late > m.MaxLate
}

// worse joins the loads of two parts of a run: the worse of each value.
func (m machineLoad) worse(o machineLoad) machineLoad {
	return machineLoad{
		CPUs:     max(m.CPUs, o.CPUs),
		Busy:     max(m.Busy, o.Busy),
		Measured: m.Measured && o.Measured,
		Late:     max(m.Late, o.Late),
		MaxLate:  max(m.MaxLate, o.MaxLate),
	}
}

func (m machineLoad) text() string {
	used := "processor time unknown"
	if m.Measured {
		used = fmt.Sprintf("this program used %.0f %% of %d CPUs during the fault", 100*m.Busy, m.CPUs)
	}
	text := fmt.Sprintf("%s; 99 %% of the calls were started at most %v late", used, m.Late.Round(100*time.Microsecond))
	if m.Saturated() {
		text += fmt.Sprintf(". More than %.0f %% or %v is too much: these numbers show the machine, not the strategies", 100*tooBusy, m.MaxLate)
	}
	return text
}

// cpuMeter measures the use of the processors over a time.
type cpuMeter struct {
	start time.Time
	used  time.Duration
	known bool
}

func startCPUMeter() cpuMeter {
	used, known := processorTime()
	return cpuMeter{start: time.Now(), used: used, known: known}
}

// stop tells the load since the start, given how late the calls were and the
// attempt timeout.
func (m cpuMeter) stop(late []time.Duration, attempt time.Duration) machineLoad {
	used, known := processorTime()
	load := machineLoad{
		CPUs:     runtime.GOMAXPROCS(0),
		Measured: known && m.known,
		Late:     percentile(late, 99),
		MaxLate:  time.Duration(tooLate * float64(attempt)),
	}
	if span := time.Since(m.start); load.Measured && span > 0 {
		load.Busy = (used - m.used).Seconds() / (span.Seconds() * float64(load.CPUs))
	}
	return load
}

// percentile is the value that p per cent of the values do not exceed.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*p/100]
}
