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
	byKey  map[string]*world
}

type world struct {
	name     string
	scenario overload.Scenario
	strategy overload.Strategy
	results  []*overload.Result // by seed
}

func newRuns(seeds int) *runs { return &runs{seeds: seeds, byKey: map[string]*world{}} }

func keyOf(scenario overload.Scenario, strategy overload.Strategy) string {
	return fmt.Sprintf("%s %+v", strategy.Name, scenario)
}

// add adds a world that a row needs, unless it is there already.
func (r *runs) add(row string, scenario overload.Scenario, strategy overload.Strategy) {
	key := keyOf(scenario, strategy)
	if r.byKey[key] == nil {
		w := &world{strategy.Name + ": " + row, scenario, strategy, make([]*overload.Result, r.seeds)}
		r.byKey[key] = w
		r.worlds = append(r.worlds, w)
	}
}

// live runs all worlds, as many at a time as there are processors.
func (r *runs) live(t *testing.T) {
	t.Helper()
	t.Run("worlds", func(t *testing.T) {
		for _, w := range r.worlds {
			for seed := range r.seeds {
				t.Run(fmt.Sprintf("%s, seed %d", w.name, seed+1), func(t *testing.T) {
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
	results := r.byKey[keyOf(scenario, strategy)].results
	values := make([]float64, len(results))
	for seed, result := range results {
		values[seed] = f(result)
	}
	return values
}
