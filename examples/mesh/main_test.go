package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRun_badFlagExits2(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"-deadline", "1s"}, &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), "mesh: -deadline 1s: must be at least 8s")
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
	assert.Equal(t, 130, run(ctx, nil, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "interrupted")
}

func TestReport_exitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*result)
		want   int
		stdout string
	}{
		"quick met":         {func(*result) {}, exitDone, "quick: ok"},
		"quick not met":     {func(r *result) { r.Rows = r.Rows[:1] }, exitFailed, "quick: FAILED"},
		"no quick, no mark": {func(r *result) { r.Rows, r.Config.Quick = r.Rows[:1], false }, exitDone, "naive"},
		"interrupted":       {func(r *result) { r.Rows, r.Interrupted = r.Rows[:1], true }, exitInterrupted, "interrupted"},
	} {
		r := madeUp()
		test.change(&r)
		var stdout bytes.Buffer
		assert.Equal(t, test.want, report(r, &stdout), name)
		assert.Contains(t, stdout.String(), test.stdout, name)
	}
}
