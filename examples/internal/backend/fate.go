package backend

import (
	"math/rand/v2"
	"time"
)

// Fate is what chance holds for one attempt.
type Fate struct {
	luck float64 // in [0, 1): below the share of errors, the attempt fails
	work float64 // multiple of the mean service time: half of it fixed, half exponential
}

// FateOf depends on seed, call and attempt number alone, so that no strategy
// meets better luck than another and scheduling cannot change it.
func FateOf(seed uint64, call, attempt int) Fate {
	random := rand.New(rand.NewPCG(seed, mix(uint64(call)<<8|uint64(attempt&0xff))))
	return Fate{luck: random.Float64(), work: 0.5 + 0.5*random.ExpFloat64()}
}

// Fails tells whether the attempt gets an error when a share of them does.
func (f Fate) Fails(share float64) bool { return f.luck < share }

// Took is the time a worker spends on the attempt.
func (f Fate) Took(mean time.Duration) time.Duration {
	return time.Duration(f.work * float64(mean))
}

// mix spreads neighbouring numbers over all 64 bits (the finaliser of
// SplitMix64): generators seeded with neighbours would start alike.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
