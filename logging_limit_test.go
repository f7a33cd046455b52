package retrybudget_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// refusal is a refused retry of a method.
func refusal(ctx context.Context, method string, reason retrybudget.Reason) retrybudget.RefusalEvent {
	return retrybudget.RefusalEvent{
		Call:   retrybudget.CallInfo{Context: ctx, Method: method, Target: "dns:///there", Attempt: 1},
		Cause:  retrybudget.AttemptRecord{Attempt: 1, Code: codes.Unavailable},
		Reason: reason,
	}
}

var suppressedField = regexp.MustCompile(` retrybudget\.suppressed=(\d+)$`)

// suppressed adds up what the lines say was left out.
func suppressed(t *testing.T, lines []string) int {
	t.Helper()
	sum := 0
	for _, line := range lines {
		if found := suppressedField.FindStringSubmatch(line); found != nil {
			n, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			sum += n
		}
	}
	return sum
}

func TestLoggingObserver_anOutageDoesNotFloodTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		log := &logLines{}
		cc := s.Dial(t, newRetrier(t,
			retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{})),
			retrybudget.WithObserver(retrybudget.NewLoggingObserver(log))).DialOptions()...)
		// 100 calls a second fail for 25 s, then one more a minute later.
		for range 2500 {
			require.Error(t, rpctest.Call(t.Context(), cc))
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Minute)
		require.Error(t, rpctest.Call(t.Context(), cc))

		lines := log.read()
		require.Len(t, lines, 10+2+1, "ten at once, one each ten seconds, and the one after")
		for _, line := range lines[:10] {
			assert.NotContains(t, line, "suppressed")
		}
		assert.Contains(t, lines[10], " retrybudget.reason=budget retrybudget.suppressed=990")
		assert.Contains(t, lines[11], " retrybudget.suppressed=999")
		assert.Equal(t, 2501, len(lines)+suppressed(t, lines), "every refusal is in a line or in a count")
	})
}

func TestLoggingObserver_limitsByMethodAndReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &logLines{}
		o := retrybudget.NewLoggingObserver(log)
		observed := refusal(t.Context(), "/a.B/C", retrybudget.ReasonBudget)
		observed.Observed = true
		events := []retrybudget.RefusalEvent{
			refusal(t.Context(), "/a.B/C", retrybudget.ReasonBudget),
			refusal(t.Context(), "/a.B/C", retrybudget.ReasonPushback),
			refusal(t.Context(), "/a.B/D", retrybudget.ReasonBudget),
			observed,
		}
		for range 100 {
			for _, e := range events {
				o.RetryRefused(e)
			}
		}
		count := map[string]int{}
		for _, line := range log.read() {
			count[line]++
		}
		assert.Len(t, count, len(events))
		for line, n := range count {
			assert.Equal(t, 10, n, line)
		}
	})
}

// What was allowed comes back at one line each ten seconds, up to ten.
func TestLoggingObserver_linesComeBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		quiet time.Duration
		lines int
	}{
		{10*time.Second - 1, 0},
		{10 * time.Second, 1},
		{35 * time.Second, 3},
		{100 * time.Second, 10},
		{24 * time.Hour, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &logLines{}
			o := retrybudget.NewLoggingObserver(log)
			burst := func() []string {
				before := len(log.read())
				for range 50 {
					o.RetryRefused(refusal(t.Context(), "/a.B/C", retrybudget.ReasonBudget))
				}
				return log.read()[before:]
			}
			require.Len(t, burst(), 10)
			<-time.After(tt.quiet)
			lines := burst()
			require.Len(t, lines, tt.lines, "after %v", tt.quiet)
			if tt.lines > 0 {
				assert.Contains(t, lines[0], "retrybudget.suppressed=40", "after %v", tt.quiet)
				assert.Equal(t, 40, suppressed(t, lines), "in one line only")
			}
		})
	}
}

func TestLoggingObserver_parallelRefusalsAreAllCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const goroutines, each, rounds = 8, 500, 20
		log := &logLines{}
		o := retrybudget.NewLoggingObserver(log)
		for range rounds {
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range each {
						o.RetryRefused(refusal(t.Context(), "/a.B/C", retrybudget.ReasonBudget))
					}
				})
			}
			wg.Wait()
			<-time.After(10 * time.Second)
		}
		o.RetryRefused(refusal(t.Context(), "/a.B/C", retrybudget.ReasonBudget))

		lines := log.read()
		assert.Len(t, lines, 10+rounds-1+1)
		assert.Equal(t, goroutines*each*rounds+1, len(lines)+suppressed(t, lines))
	})
}

// A proxy forwards names that others choose: past the bound they share a limit,
// so that neither memory nor the log grows with them.
func TestLoggingObserver_manyMethods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const methods = 5000
		log := &logLines{}
		o := retrybudget.NewLoggingObserver(log)
		for i := range methods {
			for _, reason := range []retrybudget.Reason{retrybudget.ReasonBudget, retrybudget.ReasonPushback} {
				o.RetryRefused(refusal(t.Context(), fmt.Sprintf("/a.B/C%d", i), reason))
			}
		}
		lines := log.read()
		assert.Len(t, lines, 1024+2*10)
		<-time.After(10 * time.Second)
		for _, reason := range []retrybudget.Reason{retrybudget.ReasonBudget, retrybudget.ReasonPushback} {
			o.RetryRefused(refusal(t.Context(), "/a.B/another", reason))
		}
		lines = log.read()
		assert.Equal(t, 2*methods+2, len(lines)+suppressed(t, lines))
		assert.Equal(t, 2, strings.Count(strings.Join(lines, "\n"), "suppressed"))
	})
}

// Not parallel: it counts the allocations of the whole process.
func TestLoggingObserver_suppressedRefusalsAllocateNothing(t *testing.T) {
	lines := 0
	o := retrybudget.NewLoggingObserver(logging.LoggerFunc(func(context.Context, logging.Level, string, ...any) { lines++ }))
	e := refusal(t.Context(), "/a.B/C", retrybudget.ReasonBudget)
	for range 10 {
		o.RetryRefused(e)
	}
	assert.Zero(t, testing.AllocsPerRun(1000, func() { o.RetryRefused(e) }))
	assert.Equal(t, 10, lines)
}
