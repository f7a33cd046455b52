package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
)

// testDefaults are the defaults of a scenario.
func testDefaults(scenarioName string, quick bool) config {
	s, ok := scenarioNamed(scenarioName)
	if !ok {
		panic("no such scenario: " + scenarioName)
	}
	return defaults(s, quick)
}

func TestStory_faultOfEachScenario(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]backend.Condition{
		"overload": {Workers: 0.6, Slow: 1, Errors: 0.1},
		"outage":   {Workers: 1, Slow: 1, Errors: 1},
		"slowdown": {Workers: 1, Slow: 6, Errors: 0.1},
		"partial":  {Workers: 0.7, Slow: 1, Errors: 0.37}, // three tenths, and a tenth of the rest
	} {
		c := testDefaults(name, false)
		c.Errors, c.Health, c.Fault, c.Tail = 10, 10*time.Second, 20*time.Second, 15*time.Second
		st := storyOf(c)
		healthy := backend.Condition{Workers: 1, Slow: 1, Errors: 0.1}
		for _, test := range []struct {
			at   time.Duration
			want backend.Condition
		}{
			{0, healthy},
			{10*time.Second - 1, healthy},
			{10 * time.Second, fault},
			{30*time.Second - 1, fault},
			{30 * time.Second, healthy},
			{time.Hour, healthy},
		} {
			got := st.at(test.at).Condition
			assert.InDelta(t, test.want.Errors, got.Errors, 1e-9, "%s at %v", name, test.at)
			got.Errors = test.want.Errors
			assert.Equal(t, test.want, got, "%s at %v", name, test.at)
		}
		assert.Equal(t, []time.Duration{10 * time.Second, 30 * time.Second, 45 * time.Second}, []time.Duration{st.FaultStart, st.FaultEnd, st.length()})
		assert.Contains(t, st.at(st.FaultStart).Name, c.scenario().label(c))
	}
}

// What the texts say of each scenario's default server.
func TestScenario_defaultsFitTheStory(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{false, true} {
		for name, test := range map[string]struct{ health, fault float64 }{
			"overload": {0.8, 0.8 / 0.6}, // more than there is
			"slowdown": {0.15, 0.9},      // the calls alone still fit
			"partial":  {0.4, 0.4},       // seven tenths of the attempts meet seven tenths of the workers
		} {
			c := testDefaults(name, quick)
			fault := storyOf(c).Phases[1].Condition
			assert.InDelta(t, test.health, c.Rate/c.capacity(), 0.01, name)
			take := c.Rate * (1 - fault.Errors) / (1 - c.Errors/100) // attempts that need a worker
			assert.InDelta(t, test.fault, take/(fault.Capacity()*c.capacity()), 0.02, name)
		}
		c := testDefaults("partial", quick)
		fault := storyOf(c).Phases[1].Condition
		most := c.Rate * (1 + fault.Errors + fault.Errors*fault.Errors)
		assert.Less(t, most, fault.Capacity()*c.capacity(), "every failure tried again, and still below the dashed line")
	}
}

func TestScenarios_areDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range scenarios {
		for _, text := range []string{s.Name, s.Title, s.After, s.Reading, s.label(testDefaults(s.Name, false)), s.about(testDefaults(s.Name, false))} {
			assert.NotEmpty(t, text, s.Name)
			assert.False(t, seen[text], "%s: %q is said of another too", s.Name, text)
			seen[text] = true
		}
	}
	_, ok := scenarioNamed("flood")
	assert.False(t, ok)
}
