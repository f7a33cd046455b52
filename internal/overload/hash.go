package overload

import "math"

// What chance decides, each by a draw of its own.
const (
	drawGap uint64 = iota + 1
	drawClient
	drawMethod
	drawFate
	drawWork
)

// draw returns a number in [0, 1) that depends on nothing but its arguments, so
// that what happens to an attempt does not depend on what was scheduled before
// it, and two strategies meet the same fates.
func draw(seed, call uint64, attempt int, what uint64) float64 {
	x := mix(seed + what*0x9e3779b97f4a7c15)
	x = mix(x ^ call)
	x = mix(x ^ uint64(attempt))
	return float64(x>>11) / (1 << 53)
}

// exponential turns a draw into an exponentially distributed number of mean 1.
func exponential(draw float64) float64 { return -math.Log1p(-draw) }

// mix is the finalizer of splitmix64: every bit of x moves every bit of the
// result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
