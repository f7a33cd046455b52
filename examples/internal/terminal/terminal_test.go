package terminal_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

func TestNames(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"a", "b c"}, terminal.Names(" a,,b c ,"))
	assert.Empty(t, terminal.Names(" , "))

	known := []string{"a", "b"}
	assert.NoError(t, terminal.CheckNames("-x", []string{"b", "a"}, known))
	assert.EqualError(t, terminal.CheckNames("-x", nil, known), "-x: names none")
	assert.EqualError(t, terminal.CheckNames("-x", []string{"a", "c"}, known), `-x "c": unknown; known are a, b`)
	assert.EqualError(t, terminal.CheckNames("-x", []string{"a", "a"}, known), `-x "a": named twice`)
}

func TestWriteRows_aligns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	terminal.WriteRows(&out, 1, [][]string{{"who", "n", "share"}, {"Zoë", "10", "–"}, nil, {"x", "9", "100 %"}})
	assert.Equal(t, "who   n  share\nZoë  10      –\n\nx     9  100 %\n", out.String())
}

func TestWriteWrapped_indentsAllButTheFirst(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	terminal.WriteWords(&out, []terminal.Word{{Name: "long", Meaning: strings.Repeat("nine char ", 30)}})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Len(t, lines, 3)
	for i, line := range lines {
		assert.LessOrEqual(t, len(line), terminal.LineWidth)
		assert.Equal(t, i > 0, strings.HasPrefix(line, "  "))
	}
	assert.True(t, strings.HasPrefix(lines[0], "long: nine char"))
}

// fakeRun is five seconds of one thing and five of another.
type fakeRun struct{ start time.Time }

func (r *fakeRun) Length() time.Duration           { return 10 * time.Second }
func (r *fakeRun) Now() time.Duration              { return time.Since(r.start) }
func (r *fakeRun) Head() string                    { return "ten seconds" }
func (r *fakeRun) Label() string                   { return r.Part() }
func (r *fakeRun) Load(since time.Duration) string { return "load since " + since.String() }

func (r *fakeRun) Part() string {
	if r.Now() < 5100*time.Millisecond {
		return "one"
	}
	return "another"
}

func TestProgress_plainLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		var out bytes.Buffer
		terminal.Progress[*fakeRun](&out)(ctx, &fakeRun{time.Now()})
		assert.Equal(t, `ten seconds
  0.0 s  one
  5.0 s    load since 5s
  5.2 s  another
 10.0 s    load since 5s
`, out.String())
	})
}

func TestWriteVerdict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		demands   []terminal.Demand
		saturated bool
		met       bool
		want      string
	}{
		{[]terminal.Demand{{Text: "a", Met: true}}, true, true, "quick: ok     a\n"},
		{[]terminal.Demand{{Text: "a"}, {Text: "b", Met: true}}, false, false, "quick: FAILED a\nquick: ok     b\n"},
		{[]terminal.Demand{{Text: "a"}}, true, false, "quick: FAILED a\nquick: the machine was in the way, which alone may have caused that: run it again when nothing else is running\n"},
	} {
		var out bytes.Buffer
		assert.Equal(t, test.met, terminal.WriteVerdict(&out, test.demands, test.saturated))
		assert.Equal(t, test.want, out.String())
	}
}
