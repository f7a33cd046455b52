package overload

import (
	"sync/atomic"
	"time"
)

// bin is the resolution of what is measured over time.
const bin = 10 * time.Millisecond

// bins counts events in time.
type bins []atomic.Int32

func newBins(length time.Duration) bins { return make(bins, length/bin+1) }

func (b bins) add(t time.Duration) {
	if i := int(t / bin); i < len(b) {
		b[i].Add(1)
	}
}

// sum counts the events in w, whose ends are whole bins.
func (b bins) sum(w window) int {
	n := 0
	for i := int(w.from / bin); i < min(int(w.to/bin), len(b)); i++ {
		n += int(b[i].Load())
	}
	return n
}

// Result is what happened in a world.
type Result struct {
	scenario Scenario
	fault    window
	measured window // the fault once it has settled

	calls    bins // by the moment the call started
	good     bins // those of them that ended OK
	attempts bins // by the moment the attempt arrived

	// By method, of calls that started in the fault: those whose first attempt
	// failed, and those of them that ended OK all the same.
	failed, masked []atomic.Int64
}

// Second returns how many calls started in a second of the world, the first
// being 0, how many of them ended OK, and how many attempts arrived in it.
func (r *Result) Second(n int) (calls, good, attempts int) {
	w := window{time.Duration(n) * time.Second, time.Duration(n+1) * time.Second}
	return r.calls.sum(w), r.good.sum(w), r.attempts.sum(w)
}

// Masked returns the share of calls of a method, started in the fault, whose
// first attempt failed and that ended OK, and how many failed at first.
func (r *Result) Masked(method int) (share float64, of int) {
	of = int(r.failed[method].Load())
	return float64(r.masked[method].Load()) / float64(of), of
}

// Amplification returns attempts per call in the fault.
func (r *Result) Amplification() float64 {
	return float64(r.attempts.sum(r.measured)) / float64(r.calls.sum(r.measured))
}

// Availability returns the share of the calls started in the fault that ended
// OK.
func (r *Result) Availability() float64 {
	return float64(r.good.sum(r.measured)) / float64(r.calls.sum(r.measured))
}

// WorstSecond returns the largest number of attempts in any second from a
// second before the fault on, as a multiple of the normal rate.
func (r *Result) WorstSecond() float64 {
	const second = int(time.Second / bin)
	most, n := 0, 0
	first := max(int(r.fault.from/bin)-second, 0)
	for i := first; i < len(r.attempts); i++ {
		n += int(r.attempts[i].Load())
		if i >= first+second {
			n -= int(r.attempts[i-second].Load())
		}
		most = max(most, n)
	}
	return float64(most) / r.scenario.total()
}

// The definition of recovery.
const (
	recoveredShare   = 0.95
	recoveredWindows = 5
)

// Recovery returns the time from the end of the fault to the first moment from
// which five windows of a second in a row have 95 % of their calls succeed, or
// false if the world ended before.
func (r *Result) Recovery() (time.Duration, bool) {
	for from := r.fault.to; from+recoveredWindows*time.Second <= r.scenario.length(); from += bin {
		good := true
		for i := range time.Duration(recoveredWindows) {
			w := window{from + i*time.Second, from + (i+1)*time.Second}
			good = good && float64(r.good.sum(w)) >= recoveredShare*float64(r.calls.sum(w))
		}
		if good {
			return from - r.fault.to, true
		}
	}
	return 0, false
}
