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
)

// madeUp is a result with made-up rows for every strategy, good enough for
// -quick.
func madeUp() result {
	c := quickConfig()
	c.Out = ""
	st := overloadStory(c)
	r := result{Config: c, Story: st, Until: st.length(), Machine: machineLoad{CPUs: 2, Busy: 0.25, Measured: true, Late: time.Millisecond, MaxLate: 50 * time.Millisecond}}
	for i, s := range strategies {
		m := measured{Strategy: s, Calls: 1000, Attempts: 1000 + 10*i, Amplification: 1.05, WorstSecond: 1.2, InFault: share{1, 4}, Recovery: recovery{State: recovered, After: 2 * time.Second}, Masked: share{1, 2}, MaskedBefore: share{9, 10}}
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
	html := strings.ToLower(render(t, madeUp(), "-quick"))
	for _, remote := range []string{"http", "src=", "href", "url(", "@import", "<script", "<link", "<iframe", "<object", "<?xml"} {
		assert.NotContains(t, html, remote)
	}
}

func TestReport_showsEveryStrategy(t *testing.T) {
	t.Parallel()
	r := madeUp()
	html := render(t, r, "-quick")
	assert.Equal(t, len(strategies), strings.Count(html, "<svg "))
	assert.Equal(t, len(strategies), strings.Count(html, "</svg>"))
	for _, m := range r.Rows {
		assert.Contains(t, html, "<h3>"+escaped(m.Strategy.Title)+"</h3>")
		assert.Contains(t, html, escaped(m.Strategy.About))
		for _, cell := range m.cells()[1:] {
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

func TestReport_followsTheColourScheme(t *testing.T) {
	t.Parallel()
	html := render(t, madeUp())
	assert.Contains(t, html, "prefers-color-scheme: dark")
	for _, i := range inks {
		assert.Contains(t, html, "var("+i.variable+")", "drawn")
		assert.Equal(t, 2, strings.Count(html, i.variable+": #"), "%s is set for light and for dark", i.variable)
		assert.NotContains(t, html, fmt.Sprintf("#%02X%02X%02X", i.color.R, i.color.G, i.color.B))
	}
}

func TestReport_saysWhatWentWrong(t *testing.T) {
	t.Parallel()
	r := madeUp()
	assert.NotContains(t, render(t, r), `class="warning"`)
	r.Interrupted, r.Until = true, 4*time.Second
	assert.Contains(t, render(t, r), "interrupted after 4.0 s of 15.5 s")
	r.Interrupted, r.Machine.Late = false, time.Second
	assert.Contains(t, render(t, r), "do not trust these numbers")
}

func TestReport_withoutABin(t *testing.T) {
	t.Parallel()
	r := madeUp()
	for i := range r.Rows {
		r.Rows[i].Series = series{Bin: time.Second}
	}
	assert.Contains(t, render(t, r), "<svg ")
}

func TestReport_quotesTheCommand(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `-out 'a b.html' -strategies '' '<it'\''s>' -rate=9`, quoted([]string{"-out", "a b.html", "-strategies", "", "<it's>", "-rate=9"}))
	assert.NotContains(t, render(t, madeUp(), "-out", "<b>.html"), "<b>")
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
	r := madeUp()
	r.Rows[2].InFault = share{}
	var out bytes.Buffer
	writeTable(&out, r)
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, append([]string{"strategy"}, strings.Fields(strings.Join(columns[1:], " "))...), strings.Fields(lines[2]))
	for i := range r.Rows {
		assert.Len(t, []rune(lines[3+i]), len([]rune(lines[2])), "rows are as wide as the head")
		assert.True(t, strings.HasPrefix(lines[3+i], r.Rows[i].Strategy.Title))
	}
	assert.Contains(t, lines[3+1], "never")
	assert.Contains(t, lines[3+2], nothing)
	text := strings.Join(strings.Fields(out.String()), " ")
	assert.Contains(t, text, nativeNote)
	assert.Contains(t, text, "used 25 % of 2 CPUs")
	for _, line := range lines {
		assert.LessOrEqual(t, len([]rune(line)), lineWidth)
	}

	r.Rows = r.Rows[:2]
	out.Reset()
	writeTable(&out, r)
	assert.NotContains(t, out.String(), "grpc-go")
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

func TestReport_isWritten(t *testing.T) {
	t.Parallel()
	r := madeUp()
	r.Config.Out = filepath.Join(t.TempDir(), "storm.html")
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitDone, report(r, nil, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "report: "+r.Config.Out)
	html, err := os.ReadFile(r.Config.Out)
	require.NoError(t, err)
	assert.Equal(t, render(t, r), string(html))
}
