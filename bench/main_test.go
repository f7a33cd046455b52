package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun_refusesBadCommandLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"-rounds", "0"}, "-rounds 0 is not at least 1"},
		{[]string{"-rounds", "many"}, "many"},
		{[]string{"-benchtime", "0s"}, "-benchtime 0s is not positive"},
		{[]string{"-benchtime", "-1s"}, "-benchtime -1s is not positive"},
		{[]string{"-benchtime", "10x"}, "10x"},
		{[]string{"-run", "("}, `-run "("`},
		{[]string{"-run", "nothing like it"}, "invoker/success"},
		{[]string{"-quick", "-rounds", "3"}, "-rounds says how to measure times"},
		{[]string{"-quick", "-benchtime", "1s"}, "-benchtime says how to measure times"},
		{[]string{"-unknown"}, "-unknown"},
		{[]string{"surplus"}, `unexpected argument "surplus"`},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder

			code := run(t.Context(), tt.args, &stdout, &stderr)

			assert.Equal(t, exitUsage, code)
			assert.Empty(t, stdout.String())
			assert.Contains(t, stderr.String(), tt.says)
		})
	}
}

func TestRun_helpIsNoError(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder

	assert.Equal(t, exitOK, run(t.Context(), []string{"-h"}, io.Discard, &stderr))
	assert.Contains(t, stderr.String(), "-benchtime")
}

func TestRun_printsOneTable(t *testing.T) {
	t.Parallel()
	var stdout, stderr strings.Builder

	code := run(t.Context(), []string{"-run", "invoker", "-rounds", "3", "-benchtime", "100us"}, &stdout, &stderr)

	require.Equal(t, exitOK, code, stderr.String())
	var sectionsSeen []string
	for line := range strings.Lines(stdout.String()) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			sectionsSeen = append(sectionsSeen, strings.TrimSpace(cells[1]))
		}
	}
	want := append([]string{"section"}, strings.TrimSpace(sectionsSeen[1]))
	want = append(want, slices.Repeat([]string{"invoker/success"}, 6)...)
	want = append(want, slices.Repeat([]string{"invoker/fails-twice"}, 5)...)
	assert.Equal(t, want, sectionsSeen)
}

func TestRun_interruptedPrintsWhatThereIs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr strings.Builder

	code := run(ctx, []string{"-run", "budget", "-benchtime", "1us"}, &stdout, &stderr)

	assert.Equal(t, exitInterrupted, code)
	assert.Contains(t, stdout.String(), "| section")
	assert.Contains(t, stderr.String(), "interrupted")
}

// Every contestant does what it is measured for: retries come to the number of
// attempts that they should, an empty budget refuses.
func TestSections_allRun(t *testing.T) {
	t.Parallel()
	for _, sec := range sections() {
		for _, c := range sec.contestants {
			t.Run(sec.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				s, err := c.open()
				require.NoError(t, err)
				defer s.close()

				assert.NoError(t, s.run(20))
			})
		}
	}
}

// The tables name contestants that exist.
func TestSections_haveTheirBase(t *testing.T) {
	t.Parallel()
	for _, sec := range sections() {
		assert.True(t, slices.ContainsFunc(sec.contestants, func(c contestant) bool { return c.name == sec.bare }), sec.name)
	}
}

var errBroken = errors.New("broken")

func TestCompare_reportsWhatFails(t *testing.T) {
	t.Parallel()
	fails := section{name: "s", contestants: []contestant{
		{"works", func() (subject, error) { return subject{func(int) error { return nil }, nothing}, nil }, -1},
		{"fails", func() (subject, error) { return subject{func(int) error { return errBroken }, nothing}, nil }, -1},
	}}

	_, err := compare(t.Context(), fails, 3, time.Microsecond)

	assert.ErrorIs(t, err, errBroken)
	assert.ErrorContains(t, err, "s, fails")
}

func TestCompare_takesTurns(t *testing.T) {
	t.Parallel()
	var order []string
	enter := func(name string) contestant {
		return contestant{name: name, open: func() (subject, error) {
			return subject{func(int) error {
				order = append(order, name)
				return nil
			}, nothing}, nil
		}}
	}

	r, err := compare(t.Context(), section{contestants: []contestant{enter("a"), enter("b"), enter("c")}}, 4, 1)

	require.NoError(t, err)
	assert.Equal(t, strings.Split("a b c b c a c a b a b c", " "), order[len(order)-12:])
	for _, e := range r.entries {
		assert.Len(t, e.samples, 4)
	}
}
