package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRun_badFlagExits2(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"-rate", "-1"}, &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), "storm: -rate -1: must be above 0")
}

func TestRun_badScenarioExits2(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"-scenario", "flood"}, &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), `storm: -scenario "flood": unknown; known are overload, outage, slowdown, partial`)
}

func TestRun_helpExits0(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 0, run(t.Context(), []string{"-help"}, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "usage:")
	assert.Empty(t, stderr.String())
}

func TestRun_interruptExits130(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 130, run(ctx, []string{"-out", ""}, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "interrupted")
}

func TestReport_exitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*result)
		want   int
		stdout string
		stderr string
	}{
		"quick met":             {func(*result) {}, exitDone, "quick: ok", ""},
		"quick not met":         {func(r *result) { r.Rows = r.Rows[:1] }, exitFailed, "quick: FAILED", ""},
		"no quick, no mark":     {func(r *result) { r.Rows, r.Config.Quick = r.Rows[:1], false }, exitDone, "no retries", ""},
		"quick, nothing judged": {func(r *result) { r.Rows, r.Config.Scenario = r.Rows[:1], "outage" }, exitDone, "quick: nothing is judged in -scenario outage", ""},
		"interrupted":           {func(r *result) { r.Interrupted, r.Until = true, 3*time.Second }, exitInterrupted, "interrupted after 3.0 s of 15.5 s", ""},
		"unwritable report":     {func(r *result) { r.Config.Out = filepath.Join(r.Config.Out, "missing", "x.html") }, exitFailed, "no retries", "storm: report: "},
	} {
		r := madeUp("overload")
		test.change(&r)
		var stdout, stderr bytes.Buffer
		assert.Equal(t, test.want, report(r, nil, &stdout, &stderr), name)
		assert.Contains(t, stdout.String(), test.stdout, name)
		assert.Contains(t, stderr.String(), test.stderr, name)
	}
}
