package main

import (
	"bytes"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFlags_defaultsAreValid(t *testing.T) {
	t.Parallel()
	c, err := parseFlags(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, fullConfig(), c)
	assert.Equal(t, scenarioNames(), c.Scenarios, "every scenario is played")
	assert.Equal(t, strategyNames(), c.Strategies, "every strategy runs")
}

func TestFlags_quickChangesDefaultsOnly(t *testing.T) {
	t.Parallel()
	c, err := parseFlags([]string{"-quick"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, quickConfig(), c)
	assert.LessOrEqual(t, len(c.Scenarios), c.Together, "all at once")
	assert.Less(t, c.length(), 25*time.Second)

	c, err = parseFlags([]string{"-fault", "9s", "-quick", "-rate=120"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 9*time.Second, c.Fault)
	assert.InDelta(t, 120, c.Rate, 0)
	assert.Equal(t, quickConfig().Warmup, c.Warmup)
}

// The warm-up must be long enough to fill the token buckets, as in life.
func TestConfig_warmupFillsTheBuckets(t *testing.T) {
	t.Parallel()
	for _, c := range []config{fullConfig(), quickConfig()} {
		earned := 0.1 * c.Rate * c.Warmup.Seconds() / instances
		assert.GreaterOrEqual(t, earned, 20.0, "tokens that each B earns, of 20")
	}
}

func TestFlags_everyFlagArrives(t *testing.T) {
	t.Parallel()
	c, err := parseFlags([]string{
		"-scenarios", "sick, down", "-strategies", "adaptive, naive", "-rate", "90.5", "-deadline", "12s", "-attempt-timeout", "300ms",
		"-workers", "4", "-service-time", "20ms", "-failing", "40", "-capacity", "25",
		"-warmup", "2s", "-fault", "4s", "-together", "1", "-seed", "9",
	}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, config{
		Scenarios: []string{"sick", "down"}, Strategies: []string{"adaptive", "naive"},
		Rate: 90.5, Deadline: 12 * time.Second, AttemptTimeout: 300 * time.Millisecond,
		Workers: 4, ServiceTime: 20 * time.Millisecond, Failing: 40, Capacity: 25,
		Warmup: 2 * time.Second, Fault: 4 * time.Second, Together: 1, Seed: 9,
	}, c)
	assert.InDelta(t, 200, c.capacity(), 1e-9)
	assert.Equal(t, [edges]time.Duration{4800 * time.Millisecond, 1200 * time.Millisecond, 300 * time.Millisecond}, c.timeouts())
}

func TestFlags_badValueNamesFlagAndValue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"-rate", "0"}, []string{"-rate 0"}},
		{[]string{"-rate", "-5"}, []string{"-rate -5"}},
		{[]string{"-rate", "NaN"}, []string{"-rate NaN"}},
		{[]string{"-rate", "fast"}, []string{"-rate", `"fast"`}},
		{[]string{"-rate", "160"}, []string{"-rate 160", "capacity of 160", "-workers 8", "-service-time 50ms"}},
		{[]string{"-rate", "4000", "-workers", "5000", "-fault", "30m"}, []string{"-rate 4000", "calls"}},
		{[]string{"-workers", "0"}, []string{"-workers 0"}},
		{[]string{"-service-time", "0"}, []string{"-service-time 0s"}},
		{[]string{"-attempt-timeout", "50ms"}, []string{"-attempt-timeout 50ms", "-service-time 50ms"}},
		{[]string{"-attempt-timeout", "400ms"}, []string{"-attempt-timeout 400ms", "27", "-deadline 10s"}},
		{[]string{"-deadline", "7.9s"}, []string{"-deadline 7.9s", "at least 8s"}},
		{[]string{"-deadline", "5"}, []string{"-deadline", `"5"`}},
		{[]string{"-deadline", "2h"}, []string{"-deadline 2h0m0s"}},
		{[]string{"-failing", "101"}, []string{"-failing 101"}},
		{[]string{"-failing", "NaN"}, []string{"-failing NaN"}},
		{[]string{"-capacity", "-1"}, []string{"-capacity -1"}},
		{[]string{"-warmup", "10ms"}, []string{"-warmup 10ms"}},
		{[]string{"-fault", "-3s"}, []string{"-fault -3s"}},
		{[]string{"-warmup", "2000000h", "-fault", "2000000h"}, []string{"-warmup 2000000h0m0s"}},
		{[]string{"-together", "0"}, []string{"-together 0"}},
		{[]string{"-seed", "-1"}, []string{"-seed", `"-1"`}},
		{[]string{"-scenarios", ""}, []string{"-scenarios"}},
		{[]string{"-scenarios", "down,up"}, []string{`-scenarios "up"`, "sick"}},
		{[]string{"-strategies", ","}, []string{"-strategies"}},
		{[]string{"-strategies", "naive,hope"}, []string{`-strategies "hope"`, "adaptive"}},
		{[]string{"-strategies", "naive,naive"}, []string{`-strategies "naive"`, "twice"}},
		{[]string{"-quick", "-strategies", "naive,tokens"}, []string{"-strategies", "-quick", "adaptive"}},
		{[]string{"-quick", "-scenarios", "down"}, []string{"-scenarios", "-quick", "sick"}},
		{[]string{"-scale", "2"}, []string{"-scale"}},
		{[]string{"now"}, []string{`"now"`}},
	} {
		_, err := parseFlags(test.args, io.Discard)
		if assert.Error(t, err, "%q", test.args) {
			for _, want := range test.want {
				assert.ErrorContains(t, err, want, "%q", test.args)
			}
		}
	}
}

func TestFlags_helpListsFlagsScenariosAndStrategies(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := parseFlags([]string{"-h"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, out.String(), "-attempt-timeout")
	assert.Contains(t, out.String(), "(default 100)")
	for _, s := range scenarios {
		assert.Contains(t, out.String(), s.Name)
		assert.Contains(t, out.String(), s.title(fullConfig()))
	}
	for _, s := range strategies {
		assert.Contains(t, out.String(), s.Name)
	}
}
