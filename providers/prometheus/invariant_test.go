package prometheus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// Under calls of all kinds at once, some cancelled, some without a budget, some
// collected in the middle: attempts = calls + retries, and the reasons add up to
// the failed calls, for every method.
func TestMetrics_countsAddUp(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 60
	methods := []string{"/test.Service/A", "/test.Service/B", "/other.Service/C"}
	s := rpctest.New()
	for _, method := range methods {
		s.Script(method, func(ctx context.Context, stream grpc.ServerStream) error {
			steps := []rpctest.Step{
				rpctest.OK(), rpctest.Unavailable(), rpctest.Fail(codes.NotFound, ""), rpctest.Pushback(rpctest.Unavailable(), "-1"),
				rpctest.Pushback(rpctest.Unavailable(), "1"), rpctest.RetryInfo(codes.ResourceExhausted, time.Millisecond), rpctest.Hang(),
			}
			return steps[rand.IntN(len(steps))](ctx, stream)
		})
	}
	r, m := observed(t, bucket(20), retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 4, Backoff: retrybudget.ConstantBackoff(time.Millisecond)}))
	cc := s.Dial(t, r.DialOptions()...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := map[string]float64{}
	for g := range goroutines {
		wg.Go(func() {
			for i := range calls {
				method := methods[rand.IntN(len(methods))]
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(20))*time.Millisecond)
				err := rpctest.CallMethod(rpctest.WithCallID(ctx, fmt.Sprint(g, i)), cc, method)
				cancel()
				if err != nil {
					mu.Lock()
					failed[method]++
					mu.Unlock()
				}
				if i%10 == 0 {
					collect(t, m)
				}
			}
		})
	}
	wg.Wait()

	got := collect(t, m)
	assert.InDelta(t, goroutines*calls, got.sum("calls_total"), 0)
	assert.Positive(t, got.sum("retries_total"))
	for _, method := range methods {
		is := "grpc_method=" + method[len(method)-1:]
		calls := got.sum("calls_total", is)
		assert.InDelta(t, calls+got.sum("retries_total", is), got.sum("attempts_total", is), 0, method)
		assert.InDelta(t, failed[method], got.sum("refused_total", is), 0, method)
		assert.InDelta(t, calls-got.sum("calls_total", is, "grpc_code=OK"), got.sum("refused_total", is), 0, method)
		histogram := got.series("call_attempts", is)[0].GetHistogram()
		assert.InDelta(t, calls, histogram.GetSampleCount(), 0, method)
		assert.InDelta(t, got.sum("attempts_total", is), histogram.GetSampleSum(), 0, method)
	}
}
