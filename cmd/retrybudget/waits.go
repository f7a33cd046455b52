package main

import (
	"fmt"
	"time"

	"github.com/retrybudget/retrybudget"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// waits is the backoff of a policy.
type waits struct {
	constant    bool
	exponential retrybudget.ExponentialBackoff // without its jitter
	every       time.Duration                  // of a constant one
	jitter      retrybudgetv1.Jitter
}

func waitsOf(p *retrybudgetv1.Policy) waits {
	if c := p.GetConstantBackoff(); c != nil {
		return waits{constant: true, every: c.AsDuration()}
	}
	e := p.GetExponentialBackoff()
	w := waits{jitter: e.GetJitter(), exponential: retrybudget.ExponentialBackoff{
		Initial: e.GetInitial().AsDuration(),
		Max:     e.GetMax().AsDuration(),
		Jitter:  retrybudget.JitterNone,
	}}
	if e != nil && e.Multiplier != nil {
		w.exponential.Multiplier = e.GetMultiplier()
	}
	if w.jitter == retrybudgetv1.Jitter_JITTER_UNSPECIFIED {
		w.jitter = retrybudgetv1.Jitter_JITTER_FULL
	}
	return w
}

// at returns the wait before retry n without jitter, as the library computes it.
func (w waits) at(retry int) time.Duration {
	if w.constant {
		return w.every
	}
	return w.exponential.Wait(retrybudget.BackoffInput{Retry: retry})
}

// span returns the least and the longest wait before retry n.
func (w waits) span(retry int) (least, most time.Duration) {
	d := w.at(retry)
	if w.jitter == retrybudgetv1.Jitter_JITTER_DECORRELATED {
		d = w.at(1) // the multiplier plays no part
	}
	switch w.jitter {
	case retrybudgetv1.Jitter_JITTER_FULL:
		return 0, d
	case retrybudgetv1.Jitter_JITTER_A6:
		return d - d/5, d + d/5
	case retrybudgetv1.Jitter_JITTER_EQUAL:
		return d / 2, d
	case retrybudgetv1.Jitter_JITTER_DECORRELATED:
		least, most = d, w.longest()
		for range retry {
			if d > most/3 {
				return least, most
			}
			d *= 3
		}
		return least, d
	default:
		return d, d
	}
}

// longest returns the bound of the waits before jitter.
func (w waits) longest() time.Duration {
	b := w.exponential
	b.Multiplier = 2 // reaches every bound, which 1 does not
	return b.Wait(retrybudget.BackoffInput{Retry: 1_000})
}

// first returns the least wait before the first retry.
func (w waits) first() time.Duration {
	least, _ := w.span(1)
	return least
}

// String describes it in a line.
func (w waits) String() string {
	if w.constant {
		return fmt.Sprintf("%v each time", w.every)
	}
	if w.jitter == retrybudgetv1.Jitter_JITTER_DECORRELATED {
		return fmt.Sprintf("%v up to %v, jitter %s", w.at(1), w.longest(), jitterNames[w.jitter])
	}
	return fmt.Sprintf("%v x%v up to %v, jitter %s", w.at(1), w.growth(), w.longest(), jitterNames[w.jitter])
}

// growth returns the multiplier, the library's own if none is set.
func (w waits) growth() float64 {
	if w.exponential.Multiplier != 0 {
		return w.exponential.Multiplier
	}
	var library waits
	library.exponential.Jitter = retrybudget.JitterNone
	return float64(library.at(2)) / float64(library.at(1))
}

var jitterNames = map[retrybudgetv1.Jitter]string{
	retrybudgetv1.Jitter_JITTER_FULL:         "full",
	retrybudgetv1.Jitter_JITTER_NONE:         "none",
	retrybudgetv1.Jitter_JITTER_A6:           "a6",
	retrybudgetv1.Jitter_JITTER_EQUAL:        "equal",
	retrybudgetv1.Jitter_JITTER_DECORRELATED: "decorrelated",
}
