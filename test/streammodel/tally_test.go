package streammodel_test

import "fmt"

// tally is what happened in all runs of a test.
type tally struct {
	runs, retried, retries, replayed, timedOut, messages int
	reasons                                              map[string]int
}

// add counts a run.
func (c *tally) add(w *world) {
	c.runs++
	c.retries += len(w.retries)
	c.messages += len(w.app.got)
	if len(w.retries) > 0 {
		c.retried++
	}
	for _, a := range w.attempts {
		if a.number > 1 && len(a.received) > 0 {
			c.replayed++
		}
		if !a.finished && w.timesOut(a) && a.end == a.start+w.plan.attemptTimeout {
			c.timedOut++
		}
	}
	if c.reasons == nil {
		c.reasons = map[string]int{}
	}
	for _, e := range w.ended {
		c.reasons[e.Reason.String()]++
	}
}

// String shows the counts.
func (c *tally) String() string {
	return fmt.Sprintf("%d runs: %d with retries, %d retries, %d attempts that got a replay, %d attempt timeouts, %d messages delivered; ends by reason: %v",
		c.runs, c.retried, c.retries, c.replayed, c.timedOut, c.messages, c.reasons)
}
