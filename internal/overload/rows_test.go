package overload_test

import (
	"fmt"
	"math"

	"github.com/retrybudget/retrybudget/internal/overload"
)

// spec is a row of the table: one measure of one world, for every strategy.
type spec struct {
	name      string
	scenarios []overload.Scenario // of several, the largest value counts; Unlimited only has the last
	measure   func(*overload.Result) float64
	format    func(float64) string
	// beside is a world whose measure, for the same strategy, is subtracted.
	beside *overload.Scenario
	// later makes the values of all strategies but NoRetries their distance to
	// its value.
	later func(float64) string
	// promised are the bounds, by strategy. A strategy without one is shown for
	// comparison.
	promised map[string]bound
	leaveOut []string // strategies without a cell
	// failures is how many first attempts must have failed for the measure to
	// count.
	failures int
}

// bound is what the values of all seeds must be. none are those of NoRetries.
type bound struct {
	text  string
	holds func(values, none []float64) bool
}

func atLeast(text string, least float64) bound {
	return bound{"≥ " + text, func(values, _ []float64) bool { return median(values) >= least }}
}

func atMost(text string, most float64) bound {
	return bound{"≤ " + text, func(values, _ []float64) bool { return median(values) <= most }}
}

func within(text string, distance float64) bound {
	return bound{text, func(values, _ []float64) bool { return math.Abs(median(values)) <= distance }}
}

func notWorse(text string, by float64) bound {
	return bound{text, func(values, none []float64) bool { return median(minus(values, none)) >= -by }}
}

// The names of the strategies.
var (
	none      = overload.NoRetries().Name
	tokens    = overload.TokenBucket().Name
	adaptive  = overload.Adaptive().Name
	throttle  = overload.Throttle().Name
	unlimited = overload.Unlimited().Name
)

func specs(size overload.Size) []spec {
	rows := []spec{
		maskedRow("1 % random UNAVAILABLE", overload.RandomErrors(size, 0.01), atLeast("99.5 %", 99.5), atLeast("99.9 %", 99.9)),
		maskedRow("5 % random UNAVAILABLE", overload.RandomErrors(size, 0.05), atLeast("99 %", 99), atLeast("99.5 %", 99.5)),
		maskedRow("10 % random UNAVAILABLE", overload.RandomErrors(size, 0.1), atLeast("75 %", 75), atLeast("98 %", 98)),
		maskedRow("200 clients × 0.2 calls/s, 10 % errors", overload.SlowClients(), atLeast("60 %", 60), atLeast("94 %", 94)),
	}
	rows[0].leaveOut = append(rows[0].leaveOut, throttle) // takes long and shows nothing new
	for i := range rows[:3] {
		rows[i].failures = size.Failures
	}
	rows = append(rows, outageRows(size)...)
	return append(rows, overloadRow(size), slowDownRow(size), twoMethodsRow(size), steadyRow(size))
}

// lossSpecs are the worlds in which a budget is not the best there is. Nothing
// is promised there.
func lossSpecs(size overload.Size) []spec {
	var rows []spec
	for _, p := range []float64{0.3, 0.6} {
		rows = append(rows, spec{
			name:      fmt.Sprintf("partial outage, %g %% of attempts UNAVAILABLE for 60 s, capacity to spare: availability", 100*p),
			scenarios: []overload.Scenario{overload.PartialOutage(size, p)},
			measure:   availability, format: percent,
		})
	}
	for _, cost := range []float64{0, 0.5} {
		rows = append(rows, spec{
			name:      fmt.Sprintf("capacity to 60 %% for 30 s at 80 %% utilisation, sheds at %g of the work: availability", cost),
			scenarios: []overload.Scenario{overload.CostlyShedding(size, cost)},
			measure:   availability, format: percent,
		})
	}
	return rows
}

func maskedRow(name string, scenario overload.Scenario, t, a bound) spec {
	return spec{
		name:      name + ": masked",
		scenarios: []overload.Scenario{scenario},
		measure:   masked(0), format: percent,
		promised: map[string]bound{tokens: t, adaptive: a},
		leaveOut: []string{none, unlimited},
	}
}

func outageRows(size overload.Size) []spec {
	outage := spec{scenarios: []overload.Scenario{overload.Outage(size)}, format: times, leaveOut: []string{none}}
	steady, worst := outage, outage
	steady.name, steady.measure = "total outage 30 s: amplification in it", (*overload.Result).Amplification
	steady.promised = map[string]bound{tokens: atMost("1.05", 1.05), adaptive: atMost("1.02", 1.02), unlimited: atLeast("2.9", 2.9)}
	worst.name, worst.measure = "total outage 30 s: worst second", (*overload.Result).WorstSecond
	worst.promised = map[string]bound{tokens: atMost("2.3", 2.3), adaptive: atMost("1.4", 1.4), unlimited: atLeast("2.9", 2.9)}
	return []spec{steady, worst}
}

func overloadRow(size overload.Size) spec {
	return spec{
		name:      "overload, capacity to 60 % for 20 s at 80 % utilisation: recovery after it",
		scenarios: []overload.Scenario{overload.Overload(size)},
		measure:   recovery, format: seconds, later: seconds,
		promised: map[string]bound{
			tokens: atMost("+6 s", 6), adaptive: atMost("+2 s", 2), unlimited: atLeast("never", math.Inf(1)),
		},
	}
}

func slowDownRow(size overload.Size) spec {
	return spec{
		name:      "slow-down, latency × 6 for 30 s at 90 % utilisation: availability",
		scenarios: []overload.Scenario{overload.SlowDown(size)},
		measure:   availability, format: percent,
		promised: map[string]bound{
			tokens: atLeast("60 %", 60), adaptive: notWorse("not worse than no retries", 1), unlimited: atMost("15 %", 15),
		},
	}
}

func twoMethodsRow(size overload.Size) spec {
	alone := overload.TwoMethods(size, true)
	return spec{
		name:      "one method fails 100 %, another 10 %: masked of the second, beside it alone",
		scenarios: []overload.Scenario{overload.TwoMethods(size, false)},
		beside:    &alone,
		measure:   masked(1), format: points,
		promised: map[string]bound{tokens: within("±1 point", 1), adaptive: within("±1 point", 1)},
		leaveOut: []string{none, unlimited},
		failures: size.Failures,
	}
}

func steadyRow(size overload.Size) spec {
	s := spec{
		name:    "1…100 % of attempts fail for good: worst steady amplification",
		measure: (*overload.Result).Amplification, format: times,
		promised: map[string]bound{tokens: atMost("1.12", 1.12), adaptive: atMost("1.27", 1.27), unlimited: atLeast("2.9", 2.9)},
		leaveOut: []string{none},
	}
	for _, p := range size.Probabilities {
		s.scenarios = append(s.scenarios, overload.Steady(p))
	}
	return s
}

func masked(method int) func(*overload.Result) float64 {
	return func(r *overload.Result) float64 {
		share, _ := r.Masked(method)
		return 100 * share
	}
}

func failures(method int) func(*overload.Result) float64 {
	return func(r *overload.Result) float64 {
		_, of := r.Masked(method)
		return float64(of)
	}
}

func availability(r *overload.Result) float64 { return 100 * r.Availability() }

// recovery is infinite where there was none while the world was watched.
func recovery(r *overload.Result) float64 {
	if after, ok := r.Recovery(); ok {
		return after.Seconds()
	}
	return math.Inf(1)
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", v) }
func times(v float64) string   { return fmt.Sprintf("%.2f", v) }

// points has no negative zero.
func points(v float64) string { return fmt.Sprintf("%+.2f", math.Round(v*100)/100+0) }

func seconds(v float64) string {
	if math.IsInf(v, 1) {
		return "never"
	}
	return fmt.Sprintf("%.1f s", v)
}
