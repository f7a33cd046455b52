package prometheus

import prom "github.com/prometheus/client_golang/prometheus"

const prefix = "grpc_retrybudget_"

// The labels. Those of a method come first, in the order of names.values.
const (
	labelTarget   = "target"
	labelService  = "grpc_service"
	labelMethod   = "grpc_method"
	labelCode     = "grpc_code"
	labelReason   = "reason"
	labelGuidance = "guidance"
)

// labels are those of a method and more.
func labels(more ...string) []string {
	return append([]string{labelTarget, labelService, labelMethod}, more...)
}

func describe(name, help string, labels []string) *prom.Desc {
	return prom.NewDesc(prefix+name, help, labels, nil)
}

// What is made into metrics when they are collected, from counts that a
// successful call can afford to change and from the state of Retriers.
var (
	callsDesc = describe("calls_total",
		"Calls of the application that ended, by the code that it got.", labels(labelCode))
	attemptsDesc = describe("attempts_total",
		"Attempts that ended, first ones and retries, by their code.", labels(labelCode))
	callAttemptsDesc = describe("call_attempts",
		"Attempts of a call that ended.", labels())
	tokensDesc = describe("budget_tokens",
		"Tokens in the budget that retries could take now; one pays for an ordinary retry.", labels())
	lowestDesc = describe("budget_lowest_tokens",
		"Tokens in the emptiest of the budgets that budget_tokens adds up.", labels())
	capacityDesc = describe("budget_capacity_tokens",
		"Most tokens that the budget can hold.", labels())
	replayDesc = describe("replay_bytes",
		"Bytes that streams hold to send them again on a retry.", nil)
)

func descriptions() []*prom.Desc {
	return []*prom.Desc{callsDesc, attemptsDesc, callAttemptsDesc, tokensDesc, lowestDesc, capacityDesc, replayDesc}
}

// callAttempts are the upper bounds of the buckets of call_attempts.
var callAttempts = [...]int{1, 2, 3, 4, 5, 10}

// waits are the upper bounds of the buckets of wait_seconds: the default backoff
// waits up to a second, a server may ask for 30.
var waits = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// vectors are the metrics that only change when something failed.
type vectors struct {
	retries, succeeded, refused, wouldRefuse, hinted *prom.CounterVec
	wait                                             *prom.HistogramVec
}

func newVectors() vectors {
	counter := func(name, help string, labels []string) *prom.CounterVec {
		return prom.NewCounterVec(prom.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	return vectors{
		retries: counter("retries_total",
			"Retries sent, by the code of the failure before, and whether the server's guidance set the wait.", labels(labelCode, labelGuidance)),
		succeeded: counter("retries_succeeded_total",
			"Retries that ended OK.", labels()),
		refused: counter("refused_total",
			"Failed calls, by the reason why no retry, or no other, followed.", labels(labelReason)),
		wouldRefuse: counter("would_refuse_total",
			"Retries sent in Observe mode that the budget would have refused.", labels()),
		hinted: counter("hinted_failures_total",
			"Failed attempts whose server said that its own retries were refused further down.", labels()),
		wait: prom.NewHistogramVec(prom.HistogramOpts{
			Name: prefix + "wait_seconds", Help: "Time that a retry waited before it was sent.", Buckets: waits,
		}, labels()),
	}
}

func (v vectors) all() []prom.Collector {
	return []prom.Collector{v.retries, v.succeeded, v.refused, v.wouldRefuse, v.hinted, v.wait}
}
