package retrybudget

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Whatever grpc-go accepts as a retryPolicy, no wait is negative or more than a
// fifth above the longest. Waits of years are not to be waited for in a test.
func TestA6Backoff_neverOverflows(t *testing.T) {
	t.Parallel()
	longest := time.Duration(math.MaxInt64)
	for _, initial := range []time.Duration{1, time.Millisecond, time.Hour, longest} {
		for _, most := range []time.Duration{1, time.Second, longest} {
			for _, multiplier := range []float64{math.SmallestNonzeroFloat64, 0.5, math.Nextafter(1, 0), 1, 1.6, 1e300, math.MaxFloat64} {
				b := a6Backoff{initial, most, multiplier}
				for _, retry := range []int{1, 2, 3, 64, 1 << 20, math.MaxInt} {
					wait := b.Wait(BackoffInput{Retry: retry})
					assert.GreaterOrEqual(t, wait, time.Duration(0), "%+v %d", b, retry)
					assert.LessOrEqual(t, float64(wait), float64(most)*1.2, "%+v %d", b, retry)
					if retry == 1 {
						first := float64(min(initial, most))
						assert.InDelta(t, first, float64(wait), first/5+1, "%+v", b)
					}
				}
			}
		}
	}
}
