package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/examples/internal/tally"
)

// TestMain lets the test binary be the client processes, too.
func TestMain(m *testing.M) {
	if text := os.Getenv(clientVariable); text != "" {
		os.Exit(clientMain(text, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func hidden(context.Context, *live) {}

// A short run of everything; only what holds on any machine is demanded.
func TestPlay_countsWhatArrives(t *testing.T) {
	t.Parallel()
	if _, stop, err := findRedis(t.Context(), config{}); err == nil {
		stop()
	} else {
		require.NotEqual(t, "true", os.Getenv("CI"), "CI must have redis-server")
		t.Skip("redis-server is not installed (apt-get install redis-server); CI runs this test")
	}
	c := quickConfig()
	// Little enough for a machine that is busy with something else.
	c.Processes, c.Rate, c.Workers, c.Capacity = 2, 40, 8, 0
	c.AttemptTimeout, c.Deadline = time.Second, 5*time.Second
	c.Health, c.Fault, c.Tail = 2*time.Second, 3*time.Second, 200*time.Millisecond
	r, err := play(t.Context(), c, hidden)
	require.NoError(t, err)
	require.Len(t, r.Rows, 3)
	calls := len(c.arrivals(0)) + len(c.arrivals(1))
	for _, m := range r.Rows {
		assert.Equal(t, calls, m.Calls, m.Strategy.Name)
		assert.LessOrEqual(t, float64(m.Retries), m.Bound, m.Strategy.Name)
		assert.Positive(t, m.InFault.Whole, m.Strategy.Name)
	}
	assert.Zero(t, r.Rows[0].Retries)
	assert.Positive(t, r.Rows[1].Retries)
	assert.Positive(t, r.Rows[2].Retries)
}

func TestRun_withoutRedisSaysHowToGetIt(t *testing.T) {
	t.Setenv("PATH", "")
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitFailed, run(t.Context(), nil, &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), "fleet: neither redis-server nor valkey-server is installed.\nDebian, Ubuntu: apt-get install redis-server.")
	assert.Contains(t, stderr.String(), "-redis host:port")
}

func TestRun_redisThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _, err := findRedis(ctx, config{Redis: "127.0.0.1:1"})
	assert.ErrorContains(t, err, "-redis 127.0.0.1:1: ")
}

func TestRun_exitCodes(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitDone, run(t.Context(), []string{"-h"}, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "usage: go -C examples run ./fleet [flags]")
	assert.Empty(t, stderr.String())
	assert.Equal(t, exitUsage, run(t.Context(), []string{"-rate", "0"}, &stdout, &stderr))
	assert.Equal(t, "fleet: -rate 0: must be above 0 and at most 10000\nfleet: -h lists the flags\n", stderr.String())

	if _, err := exec.LookPath("redis-server"); err != nil {
		return // without Redis it ends before it can be interrupted
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	stderr.Reset()
	assert.Equal(t, exitInterrupted, run(ctx, nil, &stdout, &stderr))
	assert.Equal(t, "fleet: interrupted\n", stderr.String())
}

func TestRun_interruptedLeavesNoFolder(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	run(ctx, nil, io.Discard, io.Discard)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestParseFlags(t *testing.T) {
	t.Parallel()
	c, err := parseFlags(nil, io.Discard)
	assert.NoError(t, err)
	assert.Equal(t, fullConfig(), c)
	c, err = parseFlags([]string{"-quick", "-fault", "9s"}, io.Discard)
	assert.NoError(t, err)
	want := quickConfig()
	want.Fault = 9 * time.Second
	assert.Equal(t, want, c)
	for flag, want := range map[string]string{
		"-processes=1":  "-processes 1: must be 2 to 100",
		"-rate=NaN":     "-rate NaN: must be above 0 and at most 10000",
		"-workers=0":    "-workers 0: must be at least 1",
		"-capacity=101": "-capacity 101: must be 0 to 100",
		"-deadline=0":   "-deadline 0s: must be above 0 and at most 1h",
		"-tail=2h":      "-tail 2h0m0s: must be above 0 and at most 1h",
		"extra":         `unexpected argument "extra"`,
	} {
		_, err := parseFlags([]string{flag}, io.Discard)
		assert.EqualError(t, err, want)
	}
}

// madeUp is a result as it should be.
func madeUp() result {
	return result{Config: quickConfig(), Rows: []measured{
		{Strategy: strategies[0], Calls: 100, Attempts: 100},
		{Strategy: strategies[1], Calls: 100, Attempts: 190, Retries: 85, Worst: 80, Bound: 95, InFault: tally.Share{Part: 1, Whole: 10}},
		{Strategy: strategies[2], Calls: 100, Attempts: 130, Retries: 25, Worst: 24, Bound: 35, InFault: tally.Share{Part: 2, Whole: 10}},
	}}
}

func TestWriteVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*result)
		want   bool
	}{
		"as it should be":      {func(*result) {}, true},
		"above the bound":      {func(r *result) { r.Rows[2].Retries = 36 }, false},
		"no retries":           {func(r *result) { r.Rows[2].Retries = 9 }, false},
		"control within bound": {func(r *result) { r.Rows[1].Retries = 35 }, false},
		"control too small":    {func(r *result) { r.Rows[1].Retries = 49 }, false},
		"rows missing":         {func(r *result) { r.Rows = r.Rows[:1] }, false},
	} {
		r := madeUp()
		test.change(&r)
		assert.Equal(t, test.want, writeVerdict(io.Discard, r), name)
	}
}

func TestWriteTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeTable(&out, madeUp())
	assert.Contains(t, out.String(), ""+
		"strategy                  calls  attempts  retries in overload  bound  worst second  OK in overload  OK after it\n"+
		"no retries                  100       100                    0    0.0             0               –            –\n"+
		"a budget in each process    100       190                   85   95.0            80          10.0 %            –\n"+
		"one budget for all          100       130                   25   35.0            24          20.0 %            –\n")
}
