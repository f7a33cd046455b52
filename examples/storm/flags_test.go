package main

import (
	"bytes"
	"flag"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFlags_defaultsAreValid(t *testing.T) {
	t.Parallel()
	c, err := parseFlags(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, testDefaults("overload", false), c)
	assert.Equal(t, strategyNames(), c.Strategies, "every strategy runs")
}

func TestFlags_everyScenarioIsShortEnough(t *testing.T) {
	t.Parallel()
	for _, name := range scenarioNames() {
		for quick, most := range map[string]time.Duration{"-quick=false": 90 * time.Second, "-quick": 20 * time.Second} {
			c, err := parseFlags([]string{"-scenario", name, quick}, io.Discard)
			require.NoError(t, err, "%s %s", name, quick)
			assert.Equal(t, name, c.Scenario)
			assert.Less(t, c.length()+c.Deadline, most, "%s %s", name, quick)
		}
	}
}

func TestFlags_scenarioChangesDefaultsOnly(t *testing.T) {
	t.Parallel()
	c, err := parseFlags([]string{"-fault", "7s", "-scenario", "slowdown", "-slow", "4"}, io.Discard)
	require.NoError(t, err)
	want := testDefaults("slowdown", false)
	want.Fault, want.Slow = 7*time.Second, 4
	assert.Equal(t, want, c)
	assert.NotEqual(t, testDefaults("overload", false).Workers, c.Workers)
}

// A strategy is judged in the overload alone, so elsewhere none has to run.
func TestFlags_quickNeedsItsStrategiesInTheOverload(t *testing.T) {
	t.Parallel()
	_, err := parseFlags([]string{"-quick", "-strategies", "none"}, io.Discard)
	assert.ErrorContains(t, err, "-quick judges naive and retrybudget")
	_, err = parseFlags([]string{"-quick", "-strategies", "none", "-scenario", "outage"}, io.Discard)
	assert.NoError(t, err)
}

func TestFlags_quickChangesDefaultsOnly(t *testing.T) {
	t.Parallel()
	c, err := parseFlags([]string{"-quick"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, testDefaults("overload", true), c)

	c, err = parseFlags([]string{"-tail", "9s", "-quick", "-rate=100"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 9*time.Second, c.Tail)
	assert.InDelta(t, 100, c.Rate, 0)
	assert.Equal(t, testDefaults("overload", true).Health, c.Health)
}

func TestFlags_everyFlagArrives(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "report.html")
	c, err := parseFlags([]string{
		"-strategies", "retrybudget, none", "-rate", "90.5", "-clients", "3", "-attempt-timeout", "150ms", "-deadline", "700ms",
		"-workers", "4", "-service-time", "20ms", "-fault-capacity", "25", "-errors", "2.5",
		"-health", "2s", "-fault", "4s", "-tail", "8s", "-seed", "9", "-out", out,
	}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, config{
		Scenario: "overload", Slow: 6, Down: 3,
		Strategies: []string{"retrybudget", "none"}, Rate: 90.5, Clients: 3, AttemptTimeout: 150 * time.Millisecond, Deadline: 700 * time.Millisecond,
		Workers: 4, ServiceTime: 20 * time.Millisecond, FaultCapacity: 25, Errors: 2.5,
		Health: 2 * time.Second, Fault: 4 * time.Second, Tail: 8 * time.Second, Seed: 9, Out: out, Windows: 5,
	}, c)
	assert.InDelta(t, 200, c.capacity(), 1e-9)

	c, err = parseFlags([]string{"-scenario", "partial", "-down", "5"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 5, c.Down)
}

func TestFlags_badValueNamesFlagAndValue(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "missing", "report.html")
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"-rate", "0"}, []string{"-rate 0"}},
		{[]string{"-rate", "-5"}, []string{"-rate -5"}},
		{[]string{"-rate", "NaN"}, []string{"-rate NaN"}},
		{[]string{"-rate", "+Inf"}, []string{"-rate +Inf"}},
		{[]string{"-rate", "fast"}, []string{"-rate", `"fast"`}},
		{[]string{"-rate", "500"}, []string{"-rate 500", "capacity of 500", "-workers 25", "-service-time 50ms"}},
		{[]string{"-rate", "4000", "-workers", "5000", "-tail", "30m"}, []string{"-rate 4000", "calls"}},
		{[]string{"-clients", "0"}, []string{"-clients 0"}},
		{[]string{"-clients", "1001"}, []string{"-clients 1001"}},
		{[]string{"-workers", "0"}, []string{"-workers 0"}},
		{[]string{"-service-time", "0"}, []string{"-service-time 0s"}},
		{[]string{"-attempt-timeout", "50ms"}, []string{"-attempt-timeout 50ms", "-service-time 50ms"}},
		{[]string{"-deadline", "100ms"}, []string{"-deadline 100ms", "-attempt-timeout 200ms"}},
		{[]string{"-deadline", "5"}, []string{"-deadline", `"5"`}},
		{[]string{"-fault-capacity", "101"}, []string{"-fault-capacity 101"}},
		{[]string{"-fault-capacity", "-1"}, []string{"-fault-capacity -1"}},
		{[]string{"-scenario", "flood"}, []string{`-scenario "flood"`, "overload, outage, slowdown, partial"}},
		{[]string{"-scenario", ""}, []string{`-scenario ""`, "overload, outage, slowdown, partial"}},
		{[]string{"-scenario", "outage", "-fault-capacity", "50"}, []string{"-fault-capacity 50", "-scenario overload"}},
		{[]string{"-slow", "3"}, []string{"-slow 3", "-scenario slowdown"}},
		{[]string{"-scenario", "slowdown", "-down", "3"}, []string{"-down 3", "-scenario partial"}},
		{[]string{"-scenario", "slowdown", "-slow", "0.5"}, []string{"-slow 0.5", "1 to 1000"}},
		{[]string{"-scenario", "slowdown", "-slow", "NaN"}, []string{"-slow NaN"}},
		{[]string{"-scenario", "partial", "-down", "11"}, []string{"-down 11", "0 to 10"}},
		{[]string{"-scenario", "partial", "-down", "-1"}, []string{"-down -1"}},
		{[]string{"-errors", "100"}, []string{"-errors 100"}},
		{[]string{"-errors", "NaN"}, []string{"-errors NaN"}},
		{[]string{"-health", "10ms"}, []string{"-health 10ms"}},
		{[]string{"-fault", "-3s"}, []string{"-fault -3s"}},
		{[]string{"-tail", "4s"}, []string{"-tail 4s", "at least 5s"}},
		{[]string{"-tail", "2h"}, []string{"-tail 2h0m0s", "1h0m0s"}},
		{[]string{"-health", "2000000h", "-tail", "2000000h"}, []string{"-health 2000000h0m0s"}},
		{[]string{"-seed", "-1"}, []string{"-seed", `"-1"`}},
		{[]string{"-strategies", ""}, []string{"-strategies"}},
		{[]string{"-strategies", "naive,hope"}, []string{`-strategies "hope"`, "retrybudget"}},
		{[]string{"-strategies", "naive,naive"}, []string{`-strategies "naive"`, "twice"}},
		{[]string{"-quick", "-strategies", "naive,none"}, []string{"-strategies", "-quick"}},
		{[]string{"-out", file}, []string{"-out", file}},
		{[]string{"-out", t.TempDir()}, []string{"-out", "directory"}},
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
	assert.Contains(t, out.String(), "(default 400)")
	for _, s := range scenarios {
		assert.Contains(t, out.String(), s.Name)
		assert.Contains(t, out.String(), s.about(testDefaults(s.Name, false)))
	}
	for _, s := range strategies {
		assert.Contains(t, out.String(), s.Name)
	}
}
