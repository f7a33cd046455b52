package overload_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/internal/overload"
)

// runs are the worlds that a table needs, each lived through once for each seed.
type runs struct {
	seeds  int
	worlds []*world
	byName map[string]*world
}

type world struct {
	scenario overload.Scenario
	strategy overload.Strategy
	results  []*overload.Result // by seed
}

func newRuns(seeds int) *runs { return &runs{seeds: seeds, byName: map[string]*world{}} }

func nameOf(scenario overload.Scenario, strategy overload.Strategy) string {
	return fmt.Sprintf("%s %+v", strategy.Name, scenario)
}

// add adds a world, unless it is there already.
func (r *runs) add(scenario overload.Scenario, strategy overload.Strategy) {
	name := nameOf(scenario, strategy)
	if r.byName[name] == nil {
		w := &world{scenario, strategy, make([]*overload.Result, r.seeds)}
		r.byName[name] = w
		r.worlds = append(r.worlds, w)
	}
}

// live runs all worlds, as many at a time as there are processors.
func (r *runs) live(t *testing.T) {
	t.Helper()
	t.Run("worlds", func(t *testing.T) {
		for _, w := range r.worlds {
			for seed := range r.seeds {
				t.Run(fmt.Sprintf("%s/seed=%d", w.strategy.Name, seed+1), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						result, err := overload.Run(t.Context(), w.scenario, w.strategy, uint64(seed+1))
						require.NoError(t, err)
						w.results[seed] = result
					})
				})
			}
		}
	})
}

// measure returns what f measures in the results of a world, by seed.
func (r *runs) measure(scenario overload.Scenario, strategy overload.Strategy, f func(*overload.Result) float64) []float64 {
	results := r.byName[nameOf(scenario, strategy)].results
	values := make([]float64, len(results))
	for seed, result := range results {
		values[seed] = f(result)
	}
	return values
}
