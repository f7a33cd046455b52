package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
	"github.com/retrybudget/retrybudget/examples/internal/tally"
	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// madeUp is a result that meets what -quick demands.
func madeUp() result {
	row := func(scenarioName, strategyName string, atC, ok int) measured {
		m := measured{Calls: 1000, A: 1000, B: 1000, C: atC, OK: tally.Share{Part: ok, Whole: 1000}, WorstSecond: 1.5}
		m.Scenario, _ = scenarioNamed(scenarioName)
		m.Strategy, _ = strategyNamed(strategyName)
		return m
	}
	r := result{
		Config: quickConfig(),
		Rows: []measured{
			row("down", "naive", 27_000, 0),
			row("down", "tokens", 1200, 0),
			row("down", "adaptive", 1050, 0),
			row("sick", "naive", 1000, 1000),
			row("sick", "tokens", 1000, 990),
			row("sick", "adaptive", 1000, 995),
		},
		Machine: machine.Load{CPUs: 2, Busy: 0.25, Measured: true, Late: 3 * time.Millisecond, MaxLate: 60 * time.Millisecond},
	}
	r.Rows[1].Funds, r.Rows[1].HasFunds = [edges]float64{20, 19.5, 18.25}, true
	return r
}

func TestTable_alignsAndExplains(t *testing.T) {
	t.Parallel()
	r := madeUp()
	r.Rows[5].Calls, r.Rows[5].OK = 0, tally.Share{}
	var out bytes.Buffer
	writeTable(&out, r)
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, strings.Fields(strings.Join(columns, " ")), strings.Fields(lines[0]))
	assert.Empty(t, lines[4], "between scenarios")
	for i, line := range []string{lines[1], lines[2], lines[3], lines[5], lines[6], lines[7]} {
		assert.Len(t, []rune(line), len([]rune(lines[0])), "rows are as wide as the head")
		assert.True(t, strings.HasPrefix(line, r.Rows[i].Scenario.title(r.Config)))
		assert.Contains(t, line, r.Rows[i].Strategy.Title)
	}
	assert.Equal(t, []string{"1000", "1000", "1000", "27000", "27.00", "1.50", "0.0", "%"}, strings.Fields(lines[1])[5:])
	assert.Equal(t, 3, strings.Count(lines[7], tally.Nothing), "no call ended")

	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"150 user calls a second", "10 instances of B under round_robin", "a deadline of 10s", "240 attempts a second",
		"C down, token buckets: 20.0 / 19.5 / 18.2", "this program used 25 % of 2 CPUs", "at most 3ms late",
	} {
		assert.Contains(t, text, want)
	}
	for _, name := range r.Config.Strategies {
		s, _ := strategyNamed(name)
		assert.Contains(t, text, s.About)
	}
	assert.NotContains(t, text, "go-grpc-middleware", "it did not run")
	for _, line := range lines {
		assert.LessOrEqual(t, len([]rune(line)), terminal.LineWidth)
	}
}

func TestMachine_saysWhenItWasInTheWay(t *testing.T) {
	t.Parallel()
	quiet := machine.Load{CPUs: 2, Busy: 0.5, Measured: true, Late: time.Millisecond, MaxLate: 50 * time.Millisecond}
	for name, test := range map[string]struct {
		change func(*machine.Load)
		want   bool
	}{
		"quiet":        {func(*machine.Load) {}, false},
		"busy":         {func(m *machine.Load) { m.Busy = 0.76 }, true},
		"late":         {func(m *machine.Load) { m.Late = 51 * time.Millisecond }, true},
		"not measured": {func(m *machine.Load) { m.Busy, m.Measured = 1, false }, false},
	} {
		m := quiet
		test.change(&m)
		assert.Equal(t, test.want, strings.Contains(machineText(m), "That is too much"), name)
		assert.Equal(t, !test.want, strings.Contains(machineText(m), "That is fine"), name)
		r := madeUp()
		r.Machine = m
		var out bytes.Buffer
		writeTable(&out, r)
		first, _, _ := strings.Cut(out.String(), "\n")
		assert.Equal(t, test.want, strings.Contains(first, "do not trust"), "%s: above the table", name)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(rows []measured)
		want   bool
	}{
		"as it should be":               {func([]measured) {}, true},
		"naive at its limit":            {func(rows []measured) { rows[0].C = 20_000 }, true},
		"naive too mild":                {func(rows []measured) { rows[0].C = 19_999 }, false},
		"tokens at their limit":         {func(rows []measured) { rows[1].C = 1300 }, true},
		"tokens above it":               {func(rows []measured) { rows[1].C = 1301 }, false},
		"adaptive at its limit":         {func(rows []measured) { rows[2].C = 1100 }, true},
		"adaptive above it":             {func(rows []measured) { rows[2].C = 1101 }, false},
		"adaptive loses two points":     {func(rows []measured) { rows[5].OK.Part = 980 }, true},
		"adaptive loses more":           {func(rows []measured) { rows[5].OK.Part = 979 }, false},
		"adaptive better than naive":    {func(rows []measured) { rows[3].OK.Part = 900 }, true},
		"adaptive made no calls":        {func(rows []measured) { rows[2].Calls = 0 }, false},
		"naive made no calls at sick B": {func(rows []measured) { rows[3].OK = tally.Share{} }, false},
		"a row is missing":              {func(rows []measured) { rows[1].Strategy.Name = "" }, false},
	} {
		r := madeUp()
		test.change(r.Rows)
		var out bytes.Buffer
		assert.Equal(t, test.want, writeVerdict(&out, r), name)
		assert.Equal(t, !test.want, strings.Contains(out.String(), "FAILED"), name)
		assert.Equal(t, 4, strings.Count(out.String(), "\n"), name)
	}
	r := madeUp()
	r.Rows, r.Machine.Late = nil, time.Second
	var out bytes.Buffer
	assert.False(t, writeVerdict(&out, r))
	assert.Contains(t, out.String(), "the machine was in the way")
}

func TestScenarios_areDescribed(t *testing.T) {
	t.Parallel()
	c := fullConfig()
	seen := map[string]bool{}
	for _, s := range scenarios {
		assert.NotEmpty(t, s.title(c))
		assert.NotEmpty(t, s.about(c))
		assert.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
		phases := s.phases(c)
		assert.Equal(t, c.Warmup, phases[0].Start, "%s: the fault begins after the warm-up", s.Name)
		for _, p := range phases {
			assert.Less(t, p.Start, c.length(), s.Name)
		}
	}
	_, ok := scenarioNamed("fine")
	assert.False(t, ok)
}

func TestStrategies_areDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range strategies {
		assert.NotEmpty(t, s.Title)
		assert.NotEmpty(t, s.About)
		assert.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
	}
	_, ok := strategyNamed("hope")
	assert.False(t, ok)
}

func TestScenario_phases(t *testing.T) {
	t.Parallel()
	c := fullConfig()
	c.Warmup, c.Fault, c.Failing, c.Capacity = 10*time.Second, 20*time.Second, 25, 40
	for name, want := range map[string][]phase{
		"down":       {{Start: 10 * time.Second, Errors: 1, Capacity: 1}},
		"failing":    {{Start: 10 * time.Second, Errors: 0.25, Capacity: 1}},
		"overloaded": {{Start: 10 * time.Second, Capacity: 0.4}, {Start: 15 * time.Second, Capacity: 1}},
		"sick":       {{Start: 10 * time.Second, Capacity: 1, Sick: true}},
	} {
		s, _ := scenarioNamed(name)
		assert.Equal(t, want, s.phases(c), name)
		assert.Equal(t, name == "overloaded", s.timeouts, "%s: attempts have limits of their own", name)
	}
}
