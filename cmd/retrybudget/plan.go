package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/retrybudget/retrybudget"
)

const planHelp = `
usage: retrybudget plan -layers N,N,... [flags]

plan counts what retries multiply to when a chain of services retries on every edge,
and the last service fails. -layers names the attempts on each edge, from the
outermost: 3,3,3 is a client, two services between, and the service that fails,
each edge with up to three attempts. Budgets are token buckets, one in each
replica for the method called.

formulas, for edges 1..n with m attempts each, R replicas of every caller, buckets of
C tokens (I at the start) and a ratio of r tokens for a success:

  without budgets, all fails    multiplier = m1 x m2 x ... x mn
  tokens of all replicas        when full: n x R x C, at the start: n x R x I
  with budgets, all fails       attempts at the end <= calls + tokens, because nothing
                                succeeds and so nothing is deposited; edge by edge
                                attempts(i) = min(mi x attempts(i-1), attempts(i-1) + R x C)
  worst second, outage          that for the calls of one second, or of -outage, divided
                                by their number: all tokens are spent in it
  with budgets, most succeeds   multiplier <= min(m1, 1+r) x ... x min(mn, 1+r)

The first never ends; the others end with the tokens, however long the outage is.
`

const planExamples = `
exit status: 0, or 2 for a bad argument.

examples:
  retrybudget plan -layers 3,3,3 -budget 0.1
  retrybudget plan -layers 3,3,3 -budget 0.1 -replicas 1,10,100 -rate 2000
  retrybudget plan -layers 4 -capacity 50 -initial 10 -outage 10m -json
`

// planned is what plan -json prints.
type planned struct {
	Layers        []int         `json:"layers"`
	Ratio         float64       `json:"ratio"`
	Capacity      float64       `json:"capacity"`
	Initial       float64       `json:"initial"`
	Rate          float64       `json:"rate"`
	OutageSeconds float64       `json:"outage_seconds"`
	Unbudgeted    float64       `json:"without_budgets"` // multiplier when everything fails
	Steady        float64       `json:"most_succeeds"`   // bound of the multiplier with budgets when most succeeds
	Replicas      []plannedSize `json:"replicas"`
}

// plannedSize is the same for one number of replicas.
type plannedSize struct {
	Replicas    int     `json:"replicas"`
	AtStart     float64 `json:"tokens_at_start"`
	WhenFull    float64 `json:"tokens_when_full"`
	WorstSecond float64 `json:"worst_second"` // multiplier of the calls of the worst second
	Outage      float64 `json:"outage"`       // multiplier over the whole outage
}

// mostEdges keeps the largest multiplier finite: JSON has no infinity.
const mostEdges = 50

func plan(args []string, _ io.Reader, out, _ io.Writer) (int, error) {
	flags := newFlags("plan", planHelp, planExamples)
	var layers counts
	replicas := counts{1, 10, 100}
	defaults, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{})
	if err != nil {
		return exitUsage, err
	}
	_, capacity := defaults.Level()
	flags.Var(&layers, "layers", "attempts on each edge, `N,N,...`, the original included; required")
	ratio := flags.Float64("budget", deposit(defaults), "`RATIO`: tokens that a successful call deposits, from 0.001 to 1")
	most := flags.Int("capacity", int(capacity), "`TOKENS` that a bucket holds")
	initial := flags.Int("initial", 0, "`TOKENS` in a bucket at the start")
	flags.Var(&replicas, "replicas", "`N,N,...`: a row for each number of replicas that every caller has")
	rate := flags.Float64("rate", 100, "`CALLS` a second that enter the first edge, of all replicas together")
	outage := flags.Duration("outage", time.Minute, "`TIME` that everything fails")
	asJSON := flags.Bool("json", false, "print JSON: the settings, the two multipliers, and a list of the rows")
	rest, err := flags.parse(args, out)
	if err != nil {
		return exitFine, err
	}
	switch {
	case len(rest) > 0:
		return exitUsage, badUsage("%q is not a flag: plan reads no files", rest[0])
	case len(layers) == 0:
		return exitUsage, badUsage("-layers is missing")
	case len(layers) > mostEdges:
		return exitUsage, badUsage("-layers has %d edges, more than %d", len(layers), mostEdges)
	case *ratio == 0:
		return exitUsage, badUsage("-budget 0 is not in 0.001..1")
	case *most == 0:
		return exitUsage, badUsage("-capacity 0 is not at least 1")
	case !(*rate > 0 && *rate <= math.MaxInt32):
		return exitUsage, badUsage("-rate %v is not above 0 and at most %d", *rate, math.MaxInt32)
	case *outage < time.Second:
		return exitUsage, badUsage("-outage %v is not at least 1s", *outage)
	}
	if _, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{Capacity: *most, Ratio: *ratio, Initial: *initial}); err != nil {
		return exitUsage, badUsage("-budget %v, -capacity %d, -initial %d: %v", *ratio, *most, *initial, err)
	}
	p := planned{
		Layers: layers, Ratio: *ratio, Capacity: float64(*most), Initial: float64(*initial),
		Rate: *rate, OutageSeconds: outage.Seconds(),
	}
	p.compute(replicas)
	if *asJSON {
		return exitFine, writeJSON(out, p)
	}
	p.print(out)
	return exitFine, nil
}

func (p *planned) compute(replicas []int) {
	p.Unbudgeted, p.Steady = 1, 1
	for _, m := range p.Layers {
		p.Unbudgeted *= float64(m)
		p.Steady *= min(float64(m), 1+p.Ratio)
	}
	for _, n := range replicas {
		buckets := float64(len(p.Layers) * n)
		full := float64(n) * p.Capacity
		p.Replicas = append(p.Replicas, plannedSize{
			Replicas: n, AtStart: buckets * p.Initial, WhenFull: buckets * p.Capacity,
			WorstSecond: p.attempts(p.Rate, full) / p.Rate,
			Outage:      p.attempts(p.Rate*p.OutageSeconds, full) / (p.Rate * p.OutageSeconds),
		})
	}
}

// attempts returns how many arrive at the end for a number of calls when
// everything fails and the callers of each edge hold so many tokens together.
func (p *planned) attempts(calls, tokens float64) float64 {
	for _, m := range p.Layers {
		calls = min(calls*float64(m), calls+tokens)
	}
	return calls
}

func (p *planned) print(out io.Writer) {
	fmt.Fprintf(out, "%s, attempts %s; token buckets of %v, +%v a success, %v at the start\n\n",
		plural(len(p.Layers), "edge"), (*counts)(&p.Layers), p.Capacity, p.Ratio, p.Initial)
	fmt.Fprintf(out, "attempts at the end for one call\n")
	fmt.Fprintf(out, "  without budgets, everything fails  %8s   as long as the outage lasts\n", times(p.Unbudgeted))
	fmt.Fprintf(out, "  with budgets, most succeeds        %8s   at most, in the long run\n\n", times(p.Steady))
	fmt.Fprintf(out, "with budgets, everything fails, at %v calls/s\n", p.Rate)
	rows := [][]string{{"  replicas", "tokens at start", "tokens when full", "worst second", "outage of " + secondsText(p.OutageSeconds)}}
	for _, r := range p.Replicas {
		rows = append(rows, []string{strconv.Itoa(r.Replicas), number(r.AtStart), number(r.WhenFull), times(r.WorstSecond), times(r.Outage)})
	}
	writeColumns(out, rows)
	fmt.Fprintf(out, "\nThe last two columns begin with full buckets. Their extra attempts are made once.\n")
}

func secondsText(s float64) string { return time.Duration(s * float64(time.Second)).String() }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// times returns a multiplier.
func times(v float64) string {
	if v >= 1e6 {
		return fmt.Sprintf("%.3gx", v)
	}
	return fmt.Sprintf("%.2fx", v)
}
