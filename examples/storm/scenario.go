package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
)

// backends is how many stand behind one server's address in a partial outage.
const backends = 10

// scenario is one kind of fault.
type scenario struct {
	Name  string // on the command line
	Title string // of the report
	After string // what is said of the time after the fault
	// Reading tells what to look for in the charts.
	Reading string
	// Flag is the one that only this scenario has; empty for none.
	Flag string
	// TimesOut: attempts take longer in the fault, rather than fail at once.
	TimesOut bool

	label func(c config) string            // the fault in a few words
	about func(c config) string            // the fault in a sentence, after "in the fault"
	fault func(c config) backend.Condition // without the random errors
	// adapt makes the defaults of the overload, full or quick, those of this
	// scenario.
	adapt func(c *config)
	// columns are those of the table.
	columns []column
	summary []column // above each chart
}

var scenarios = []scenario{
	{
		Name:     "overload",
		Title:    "A retry storm, and who keeps it going",
		After:    "capacity is back",
		Reading:  "As long as the offered load stays below the dashed line, the two lines lie on each other. In the shaded fault the server is too small for the calls, the queue grows, and attempts time out. What counts is what comes after the shade: capacity is back, so the calls alone fit again. If the offered load stays above the dashed line, it is the retries that keep the server busy with work nobody waits for any more: the storm has outlived its cause. If it comes down, the queue drains and the goodput returns.",
		Flag:     "fault-capacity",
		TimesOut: true,
		label:    func(c config) string { return fmt.Sprintf("%.4g %% capacity", c.FaultCapacity) },
		about:    func(c config) string { return fmt.Sprintf("%.4g %% of the workers work", c.FaultCapacity) },
		fault:    func(c config) backend.Condition { return backend.Condition{Workers: c.FaultCapacity / 100, Slow: 1} },
		adapt:    func(*config) {},
		columns:  wholeRun,
		summary:  []column{colAmplification, colRecovery},
	},
	{
		Name:    "outage",
		Title:   "A total outage, and what retries add to it",
		After:   "the server is back",
		Reading: "In the shaded fault no attempt can succeed, so the goodput is nothing whatever a client does, and each retry is load without use: three attempts for each call are three times the normal load on whatever is left of the service. What counts is how soon the offered load comes back down to that of the calls. A budget that was saved up is spent in the first moments, which is the peak at the left edge of the shade; then it is empty. A failing attempt takes no worker here, so there is no queue, and everyone is well again when the server is; where failing costs the server something, the extra load is what keeps it down.",
		label:   func(config) string { return "no attempt succeeds" },
		about:   func(config) string { return "every attempt is answered UNAVAILABLE, at once" },
		fault:   func(config) backend.Condition { return backend.Condition{Workers: 1, Slow: 1, Errors: 1} },
		adapt:   roomy,
		columns: inFault,
		summary: []column{colLoad, colInFault, colRecovery},
	},
	{
		Name:     "slowdown",
		Title:    "A slow server, and who pushes it over",
		After:    "as fast as before",
		Reading:  "In the shaded fault everything takes several times as long, as when a database behind the server loses its cache. The dashed line, which is above the chart in health, falls, but the calls alone still fit under it, so a client that never retries gets most of its answers. Some attempts now take longer than their timeout. If each of them is tried again, while the server still works on the one that was given up, the offered load passes the dashed line, the queue grows until nothing is answered in time, and goodput is lost that the fault itself had left. After the shade there is capacity in plenty and everyone recovers.",
		Flag:     "slow",
		TimesOut: true,
		label:    func(c config) string { return fmt.Sprintf("%.4g times as slow", c.Slow) },
		about: func(c config) string {
			return fmt.Sprintf("every attempt that a worker begins takes %.4g times as long", c.Slow)
		},
		fault:   func(c config) backend.Condition { return backend.Condition{Workers: 1, Slow: c.Slow} },
		adapt:   slowable,
		columns: inFault,
		summary: []column{colLoad, colInFault, colRecovery},
	},
	{
		Name:    "partial",
		Title:   "A partial outage, and who gets around it",
		After:   "all backends are back",
		Reading: "In the shaded fault some of the backends fail every attempt at once, and the others have capacity to spare: the offered load stays below the dashed line even if every failure is tried again. Here retries are worth what they cost, because the next attempt most likely meets a backend that works, and the goodput shows who makes use of it. This is the fault in which a budget that successes fund loses to retrying without one; of the three of retrybudget the adaptive one, which takes nothing for a retry that worked, loses least. The remedy is a load balancer that leaves broken backends out.",
		Flag:    "down",
		label:   func(c config) string { return fmt.Sprintf("%d of %d backends down", c.Down, backends) },
		about: func(c config) string {
			return fmt.Sprintf("%d of %d equal backends are down, with their share of the workers: each attempt meets one at random, and those that are down answer UNAVAILABLE at once", c.Down, backends)
		},
		// The backends are a share of one server's attempts and workers. So which
		// attempt meets a broken one comes from seed, call and attempt number, and
		// is the same for every strategy; a balancer's turn would depend on what
		// else is retried.
		fault: func(c config) backend.Condition {
			down := float64(c.Down) / backends
			return backend.Condition{Workers: 1 - down, Slow: 1, Errors: down}
		},
		adapt:   roomy,
		columns: inFault,
		summary: []column{colLoad, colInFault, colRecovery},
	},
}

// roomy gives the server twice the workers: 40 % of them are busy in health. A
// server that is not too small is well when the fault is over, so that there is
// less to wait for.
func roomy(c *config) {
	c.Workers *= 2
	shortTail(c)
}

// slowable makes attempts so short and workers so many that the calls alone fit
// in the fault too: 15 % of the workers are busy in health, 90 % in the fault.
func slowable(c *config) {
	c.ServiceTime = c.AttemptTimeout / 10
	c.Workers = int(math.Round(c.Rate * c.Slow * c.ServiceTime.Seconds() / 0.9))
	shortTail(c)
}

func shortTail(c *config) {
	c.Tail, c.Fault = c.Health, 2*c.Fault
	if c.Quick {
		c.Tail = time.Duration(c.Windows+1) * time.Second
	}
}

// scenario is the one that the config names.
func (c config) scenario() scenario {
	s, _ := scenarioNamed(c.Scenario) // validated
	return s
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.Name)
	}
	return names
}

func scenarioNamed(name string) (scenario, bool) {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.Name == name })
	if i < 0 {
		return scenario{}, false
	}
	return scenarios[i], true
}
