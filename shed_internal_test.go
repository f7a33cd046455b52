// Not black-box: no test can set the clock back for a running server, so the
// time is passed in.
package retrybudget

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A clock that was set back neither forgets nor brings back arrivals, and when it
// is on time again everything is as if nothing had happened.
func TestShedder_clockSetBack(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	for _, back := range []time.Duration{1, shedSlice - 1, shedSlice, time.Second, time.Hour} {
		s := &shedder{}
		for range 30 {
			assert.False(t, s.arrive(start, false))
		}
		assert.False(t, s.arrive(start.Add(-back), true), "1 of 31, %v back", back)
		assert.False(t, s.arrive(start.Add(time.Second-1), true), "2 of 32, %v back", back)
		// A second after the first 31 they are gone.
		assert.True(t, s.arrive(start.Add(time.Second), true), "2 of 2, %v back", back)
	}
}

// A time that is no time yet, and the largest steps that there can be.
func TestShedder_extremeTimes(t *testing.T) {
	t.Parallel()
	s := &shedder{}
	for _, now := range []time.Time{{}, time.Unix(0, 0), time.Unix(1<<40, 0), time.Unix(-1<<40, 0), time.Unix(1<<40, 0)} {
		s.arrive(now, true)
	}
	assert.False(t, s.arrive(time.Unix(1<<41, 0), false), "nothing is left of them")
}

// Against a model that keeps every arrival: those of the current part of the
// second and of the nine before it count.
func TestShedder_model(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(1, 2))
	s := &shedder{}
	type one struct {
		part  int64
		retry bool
	}
	var kept []one
	start := time.Unix(1_000_000, 0)
	var now, origin time.Duration // origin: where the parts are counted from
	newest := int64(0)
	for i := range 20_000 {
		now += time.Duration(chance.ExpFloat64() * float64(20*time.Millisecond))
		if chance.IntN(500) == 0 {
			now += time.Duration(chance.Int64N(int64(3 * time.Second)))
		}
		part := int64((now - origin) / shedSlice)
		if i == 0 || part-newest >= shedSlices { // a pause of a second: counted afresh
			origin, part, kept = now, 0, nil
		}
		newest = part
		retry := chance.IntN(10) == 0
		kept = append(kept, one{part, retry})
		all, retries := 0, 0
		for _, a := range kept {
			if part-a.part < shedSlices {
				all++
				if a.retry {
					retries++
				}
			}
		}
		assert.Equal(t, retries*10 > all, s.arrive(start.Add(now), retry), "arrival %d", i)
		if len(kept) > 2000 {
			kept = kept[1000:]
		}
	}
}
