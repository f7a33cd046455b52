package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
)

func planJSON(t *testing.T, args ...string) planned {
	t.Helper()
	got := runWith("", append([]string{"plan", "-json"}, args...)...)
	require.Equal(t, exitFine, got.code, got.errors)
	var p planned
	require.NoError(t, json.Unmarshal([]byte(got.out), &p))
	return p
}

// chain is a call path of real budgets: the formula's subject, counted call by
// call.
type chain struct {
	attempts []int                        // on each edge
	buckets  [][]*retrybudget.TokenBucket // of each edge's replicas; nil without budgets
	fails    func() bool                  // the last service, or the way to it
	next     []int                        // the replica whose turn it is
	arrived  int                          // attempts at the end
}

// call makes a call on an edge and reports whether it succeeded.
func (c *chain) call(edge int) bool {
	if edge == len(c.attempts) {
		c.arrived++
		return !c.fails()
	}
	var bucket *retrybudget.TokenBucket
	if c.buckets != nil {
		replicas := c.buckets[edge]
		bucket = replicas[c.next[edge]%len(replicas)]
		c.next[edge]++
	}
	for attempt := range c.attempts[edge] {
		if attempt > 0 && bucket != nil && !bucket.TryTake(retrybudget.Cause{}) {
			return false
		}
		if c.call(edge + 1) {
			if attempt == 0 && bucket != nil {
				bucket.RecordSuccess()
			}
			return true
		}
	}
	return false
}

// newChain returns a chain with full buckets, without any if there are no replicas.
func newChain(t *testing.T, attempts []int, replicas, capacity int, fails func() bool) *chain {
	t.Helper()
	c := &chain{attempts: attempts, fails: fails, next: make([]int, len(attempts))}
	for range attempts {
		var edge []*retrybudget.TokenBucket
		for range replicas {
			b, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{Capacity: capacity, Initial: capacity})
			require.NoError(t, err)
			edge = append(edge, b)
		}
		if replicas > 0 {
			c.buckets = append(c.buckets, edge)
		}
	}
	return c
}

func always() bool { return true }

// The numbers that plan prints are those that counting gives.
func TestPlan_bruteForce(t *testing.T) {
	t.Parallel()
	for range 200 {
		attempts := make(counts, 1+rand.IntN(4))
		for i := range attempts {
			attempts[i] = 1 + rand.IntN(4)
		}
		capacity := 1 + rand.IntN(30)
		p := planned{Layers: attempts, Ratio: 0.1, Capacity: float64(capacity), Rate: float64(1 + rand.IntN(50)), OutageSeconds: 7}
		p.compute([]int{1, 4})

		c := newChain(t, attempts, 0, 0, always)
		c.call(0)
		assert.InDelta(t, c.arrived, p.Unbudgeted, 0, "%v", attempts)

		for _, row := range p.Replicas {
			assert.InDelta(t, float64(row.Replicas*len(attempts)*capacity), row.WhenFull, 0)
			c := newChain(t, attempts, row.Replicas, capacity, always)
			calls := int(p.Rate * p.OutageSeconds)
			for range calls {
				c.call(0)
			}
			bound := row.Outage * float64(calls)
			assert.LessOrEqual(t, float64(c.arrived), bound+1e-6, "%v, %d replicas of %d tokens, %d calls", attempts, row.Replicas, capacity, calls)
			if row.Replicas == 1 { // more may not find a use for all of their tokens
				assert.InDelta(t, bound, c.arrived, 1e-6, "%v, %d tokens, %d calls", attempts, capacity, calls)
			}
		}
	}
}

// With many calls every replica spends all of its tokens.
func TestPlan_bruteForceReplicas(t *testing.T) {
	t.Parallel()
	p := planned{Layers: []int{3, 3, 3}, Ratio: 0.1, Capacity: 20, Rate: 1000, OutageSeconds: 10}
	p.compute([]int{10})
	c := newChain(t, p.Layers, 10, 20, always)
	for range 10_000 {
		c.call(0)
	}
	assert.Equal(t, 10_000+600, c.arrived)
	assert.InDelta(t, 10_600/10_000.0, p.Replicas[0].Outage, 1e-9)
}

// In the long run no share of failures gets above the bound.
func TestPlan_bruteForceMostSucceeds(t *testing.T) {
	t.Parallel()
	p := planned{Layers: []int{3, 3, 3}, Ratio: 0.1, Capacity: 20, Rate: 1, OutageSeconds: 1}
	p.compute([]int{1})
	worst := 0.0
	for _, share := range []float64{0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1} {
		random := rand.New(rand.NewPCG(1, 2))
		c := newChain(t, p.Layers, 1, 20, func() bool { return random.Float64() < share })
		const calls = 50_000
		for range calls {
			c.call(0)
		}
		multiplier := float64(c.arrived-60) / calls // without what was there at first
		assert.LessOrEqual(t, multiplier, p.Steady, "%v of the attempts fail", share)
		worst = max(worst, multiplier)
	}
	assert.Greater(t, worst, 1.2, "and the bound is no idle one")
}

// The numbers of docs/mesh.md and docs/budgets.md.
func TestPlan_agreesWithTheDocuments(t *testing.T) {
	t.Parallel()
	p := planJSON(t, "-layers", "3,3,3", "-budget", "0.1")
	assert.InDelta(t, 27, p.Unbudgeted, 0)
	assert.InDelta(t, 1.331, p.Steady, 1e-9)
	mesh, err := os.ReadFile("../../docs/mesh.md")
	require.NoError(t, err)
	assert.Contains(t, string(mesh), "3 × 3 × 3 = 27")
	assert.Contains(t, string(mesh), "1.1³ = 1.33")
	assert.Contains(t, string(mesh), "attempts at the end ≤ calls + tokens of all processes on the path")

	assert.InDelta(t, 54, planJSON(t, "-layers", "3,3,3,2").Unbudgeted, 0, "a sidecar with one retry makes it 54")

	// 40 clients of 20 calls/s hold 800 tokens: the worst second is 2.0.
	p = planJSON(t, "-layers", "3", "-rate", "800", "-replicas", "40")
	assert.InDelta(t, 800, p.Replicas[0].WhenFull, 0)
	assert.InDelta(t, 2.0, p.Replicas[0].WorstSecond, 1e-9)
	// With 400 clients of 2 calls/s it would be all that three attempts allow.
	p = planJSON(t, "-layers", "3", "-rate", "800", "-replicas", "400")
	assert.InDelta(t, 3.0, p.Replicas[0].WorstSecond, 1e-9)
	budgets, err := os.ReadFile("../../docs/budgets.md")
	require.NoError(t, err)
	assert.Contains(t, string(budgets), "40 clients of 20 calls/s hold 800 tokens, one second's\n  traffic, and the worst second is 2.0. With 400 clients of 2 calls/s it would be\n  all that three attempts allow")
}

func TestPlan_defaultsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	p := planJSON(t, "-layers", "2")
	b, err := retrybudget.NewTokenBucket(retrybudget.TokenBucketConfig{})
	require.NoError(t, err)
	tokens, capacity := b.Level()
	assert.Equal(t, []float64{capacity, tokens, 0.1}, []float64{p.Capacity, p.Initial, p.Ratio})
	for range 10 {
		b.RecordSuccess()
	}
	tokens, _ = b.Level()
	assert.InDelta(t, tokens, 10*p.Ratio, 1e-9)
}

func TestPlan_layerOfOne(t *testing.T) {
	t.Parallel()
	p := planJSON(t, "-layers", "1,1", "-initial", "5", "-replicas", "3")
	assert.InDelta(t, 1, p.Unbudgeted, 0)
	assert.InDelta(t, 1, p.Steady, 0)
	assert.Equal(t, []plannedSize{{Replicas: 3, AtStart: 30, WhenFull: 120, WorstSecond: 1, Outage: 1}}, p.Replicas)
}

// The largest numbers that there can be are still numbers.
func TestPlan_largest(t *testing.T) {
	t.Parallel()
	p := planJSON(t, "-layers", strings.TrimSuffix(strings.Repeat("1000000,", 50), ","), "-replicas", "1000000", "-capacity", "1000000000")
	assert.InEpsilon(t, 1e300, p.Unbudgeted, 1e-6)
}
