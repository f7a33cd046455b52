package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
	"github.com/retrybudget/retrybudget/examples/internal/tally"
	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

// madeUp is a result with made-up rows for every strategy, good enough for
// -quick.
func madeUp(scenarioName string) result {
	c := testDefaults(scenarioName, true)
	c.Out = ""
	st := storyOf(c)
	r := result{Config: c, Story: st, Until: st.length(), Machine: machine.Load{CPUs: 2, Busy: 0.25, Measured: true, Late: time.Millisecond, MaxLate: 50 * time.Millisecond}}
	for i, s := range strategies {
		m := measured{Strategy: s, Calls: 1000, Attempts: 1000 + 10*i, Amplification: 1.05, Load: 1.37, WorstSecond: 1.2, InFault: tally.Share{Part: 1, Whole: 4}, Recovery: recovery{State: recovered, After: 2 * time.Second}, Masked: tally.Share{Part: 1, Whole: 2}, MaskedBefore: tally.Share{Part: 9, Whole: 10}}
		if s.Name == "naive" {
			m.Amplification, m.Recovery = 2.5, recovery{State: never}
		}
		m.Series = series{Bin: time.Second, Offered: []float64{400, float64(500 + i)}, Goodput: []float64{400, 10}}
		r.Rows = append(r.Rows, m)
	}
	return r
}

func render(t *testing.T, r result, args ...string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, renderReport(&out, r, args))
	return out.String()
}

func TestReport_isSelfContained(t *testing.T) {
	t.Parallel()
	html := strings.ToLower(render(t, madeUp("overload"), "-quick"))
	for _, remote := range []string{"http", "src=", "href", "url(", "@import", "<script", "<link", "<iframe", "<object", "<?xml"} {
		assert.NotContains(t, html, remote)
	}
}

func TestReport_showsEveryStrategy(t *testing.T) {
	t.Parallel()
	r := madeUp("overload")
	html := render(t, r, "-quick")
	assert.Equal(t, len(strategies), strings.Count(html, "<svg "))
	assert.Equal(t, len(strategies), strings.Count(html, "</svg>"))
	for _, m := range r.Rows {
		assert.Contains(t, html, "<h3>"+escaped(m.Strategy.Title)+"</h3>")
		assert.Contains(t, html, escaped(m.Strategy.About))
		for _, cell := range r.Config.cells(m)[1:] {
			assert.Contains(t, html, ">"+escaped(cell)+"</td>")
		}
	}
	for _, p := range parameters(r.Config) {
		assert.Contains(t, html, "<dt>"+p.Name+"</dt>")
	}
	assert.Contains(t, html, "How to read it")
	assert.Contains(t, html, "go -C examples run ./storm -quick")
}

// escaped is a text as the template writes it.
func escaped(text string) string {
	return strings.NewReplacer("+", "&#43;", "'", "&#39;").Replace(text)
}

// The report speaks of the fault that was played and of no other.
func TestReport_adaptsToTheScenario(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		r := madeUp(s.Name)
		html := render(t, r, "-scenario", s.Name)
		for _, other := range scenarios {
			check := assert.NotContains
			if other.Name == s.Name {
				check = assert.Contains
			}
			check(t, html, "<title>"+escaped(other.Title)+"</title>", s.Name)
			check(t, html, escaped(other.Title)+"</h1>", s.Name)
			check(t, html, escaped(other.Reading), s.Name)
			check(t, html, "In the fault, "+escaped(other.about(r.Config)), s.Name)
			check(t, html, "<dd>"+other.Name+": ", s.Name)
		}
		overload := s.Name == "overload"
		assert.Equal(t, overload, strings.Contains(html, "amplification"), s.Name)
		assert.Equal(t, !overload, strings.Contains(html, "load in fault"), s.Name)
		assert.Equal(t, !overload, strings.Contains(html, ">1.37</td>"), s.Name)
		assert.Equal(t, s.Name == "overload" || s.Name == "slowdown", strings.Contains(html, escaped(nativeNote)), s.Name)
	}
}

func TestChart_highest(t *testing.T) {
	t.Parallel()
	c := testDefaults("overload", false)
	row := func(rates ...float64) []measured { return []measured{{Series: series{Offered: rates}}} }
	assert.InDelta(t, 1.05*500, highest(c, row(400)), 1e-9, "the capacity")
	assert.InDelta(t, 1.05*1100, highest(c, row(400, 1100, 30)), 1e-9, "the load")
	c = testDefaults("slowdown", false)
	assert.Greater(t, c.capacity(), 2000.0)
	assert.InDelta(t, 1.05*1200, highest(c, row(400)), 1e-9, "a capacity far above the load is not shown")
}

// The dashed line of the charts.
func TestChart_capacityInTheFault(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{"overload": 0.6, "outage": 0, "slowdown": 1.0 / 6, "partial": 0.7} {
		c := testDefaults(name, false)
		line := capacityLine(c, storyOf(c))
		assert.InDelta(t, c.capacity(), line[0].Y, 1e-9, name)
		assert.InDelta(t, want*c.capacity(), line[2].Y, 1e-9, name)
		assert.InDelta(t, want*c.capacity(), line[3].Y, 1e-9, name)
		assert.InDelta(t, c.capacity(), line[5].Y, 1e-9, name)
	}
}

func TestReport_followsTheColourScheme(t *testing.T) {
	t.Parallel()
	html := render(t, madeUp("overload"))
	assert.Contains(t, html, "prefers-color-scheme: dark")
	for _, i := range inks {
		assert.Contains(t, html, "var("+i.variable+")", "drawn")
		assert.Equal(t, 2, strings.Count(html, i.variable+": #"), "%s is set for light and for dark", i.variable)
		assert.NotContains(t, html, fmt.Sprintf("#%02X%02X%02X", i.color.R, i.color.G, i.color.B))
	}
}

func TestReport_saysWhatWentWrong(t *testing.T) {
	t.Parallel()
	r := madeUp("overload")
	assert.NotContains(t, render(t, r), `class="warning"`)
	r.Interrupted, r.Until = true, 4*time.Second
	assert.Contains(t, render(t, r), "interrupted after 4.0 s of 15.5 s")
	r.Interrupted, r.Machine.Late = false, time.Second
	assert.Contains(t, render(t, r), "do not trust these numbers")
}

func TestReport_withoutABin(t *testing.T) {
	t.Parallel()
	r := madeUp("overload")
	for i := range r.Rows {
		r.Rows[i].Series = series{Bin: time.Second}
	}
	assert.Contains(t, render(t, r), "<svg ")
}

func TestReport_quotesTheCommand(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `-out 'a b.html' -strategies '' '<it'\''s>' -rate=9`, quoted([]string{"-out", "a b.html", "-strategies", "", "<it's>", "-rate=9"}))
	assert.NotContains(t, render(t, madeUp("overload"), "-out", "<b>.html"), "<b>")
}

func TestChart_roundTicks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		top  float64
		want string
	}{
		{15.5, "0 5 10 15"},
		{55, "0 10 20 30 40 50"},
		{100, "0 20 40 60 80 100"},
		{525, "0 100 200 300 400 500"},
		{945, "0 200 400 600 800"},
		{1470, "0 500 1000"},
	} {
		var labels []string
		for _, tick := range roundTicks(test.top) {
			labels = append(labels, tick.Label)
		}
		assert.Equal(t, test.want, strings.Join(labels, " "))
	}
}

func TestTable_alignsAndExplains(t *testing.T) {
	t.Parallel()
	r := madeUp("overload")
	r.Rows[2].InFault = tally.Share{}
	var out bytes.Buffer
	writeTable(&out, r)
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, append([]string{"strategy"}, strings.Fields(strings.Join(r.Config.heads()[1:], " "))...), strings.Fields(lines[2]))
	for i := range r.Rows {
		assert.Len(t, []rune(lines[3+i]), len([]rune(lines[2])), "rows are as wide as the head")
		assert.True(t, strings.HasPrefix(lines[3+i], r.Rows[i].Strategy.Title))
	}
	assert.Contains(t, lines[3+1], "never")
	assert.Contains(t, lines[3+2], tally.Nothing)
	text := strings.Join(strings.Fields(out.String()), " ")
	assert.Contains(t, text, nativeNote)
	assert.Contains(t, text, "used 25 % of 2 CPUs")
	for _, line := range lines {
		assert.LessOrEqual(t, len([]rune(line)), terminal.LineWidth)
	}

	r.Rows = r.Rows[:2]
	out.Reset()
	writeTable(&out, r)
	assert.NotContains(t, out.String(), "grpc-go")

	above := func() string {
		out.Reset()
		writeTable(&out, r)
		above, _, _ := strings.Cut(out.String(), "\nstrategy ")
		return above
	}
	assert.NotContains(t, above(), "do not trust")
	r.Machine.Late = time.Second
	assert.Contains(t, above(), "do not trust these numbers")
}

func TestTable_adaptsToTheScenario(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		r := madeUp(s.Name)
		var out bytes.Buffer
		writeTable(&out, r)
		text := strings.Join(strings.Fields(out.String()), " ")
		assert.True(t, strings.HasPrefix(text, s.Name+": "), s.Name)
		assert.Contains(t, text, "of fault ("+s.label(r.Config)+")")
		assert.Contains(t, text, "fault: "+s.about(r.Config)+".")
		overload := s.Name == "overload"
		assert.Equal(t, overload, strings.Contains(text, "amplification: attempts / calls"), s.Name)
		assert.Equal(t, !overload, strings.Contains(text, "load in fault: attempts that arrived"), s.Name)
		assert.Equal(t, overload || s.Name == "slowdown", strings.Contains(text, nativeNote), s.Name)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	row := func(rows []measured, name string) *measured {
		for i := range rows {
			if rows[i].Strategy.Name == name {
				return &rows[i]
			}
		}
		return nil
	}
	for name, test := range map[string]struct {
		change func([]measured)
		want   bool
	}{
		"as it should be":        {func([]measured) {}, true},
		"naive too mild":         {func(rows []measured) { row(rows, "naive").Amplification = 2 }, false},
		"naive recovered":        {func(rows []measured) { row(rows, "naive").Recovery.State = recovered }, false},
		"naive not measured":     {func(rows []measured) { row(rows, "naive").Recovery.State = unmeasured }, false},
		"budget at its limit":    {func(rows []measured) { row(rows, "retrybudget").Amplification = 1.15 }, true},
		"budget above it":        {func(rows []measured) { row(rows, "retrybudget").Amplification = 1.16 }, false},
		"budget never recovered": {func(rows []measured) { row(rows, "retrybudget").Recovery.State = never }, false},
		"budget made no calls":   {func(rows []measured) { *row(rows, "retrybudget") = measured{} }, false},
	} {
		r := madeUp("overload")
		test.change(r.Rows)
		var out bytes.Buffer
		assert.Equal(t, test.want, writeVerdict(&out, r), name)
		assert.Equal(t, !test.want, strings.Contains(out.String(), "FAILED"), name)
		assert.Equal(t, 4, strings.Count(out.String(), "\n"), name)
	}
	r := madeUp("overload")
	r.Rows, r.Machine.Late = nil, time.Second
	var out bytes.Buffer
	assert.False(t, writeVerdict(&out, r))
	assert.Contains(t, out.String(), "the machine was in the way")
}

func TestReport_isWritten(t *testing.T) {
	t.Parallel()
	r := madeUp("overload")
	r.Config.Out = filepath.Join(t.TempDir(), "storm.html")
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitDone, report(r, nil, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "report: "+r.Config.Out)
	html, err := os.ReadFile(r.Config.Out)
	require.NoError(t, err)
	assert.Equal(t, render(t, r), string(html))
}
