package prometheus_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

type counts = map[string]float64

// What each kind of call counts as. A retry is one only when it was sent, however
// much it was wanted, and every failed call has one reason.
func TestMetrics_countCalls(t *testing.T) {
	t.Parallel()
	unavailable, ok := rpctest.Unavailable(), rpctest.OK()
	for _, tt := range []struct {
		name    string
		steps   []rpctest.Step
		options []retrybudget.Option
		call    []grpc.CallOption
		calls   counts // by code
		tries   counts // attempts by code
		retries counts // by code
		refused counts // by reason
		saved   float64
	}{
		{
			name: "OK", steps: []rpctest.Step{ok},
			calls: counts{"OK": 1}, tries: counts{"OK": 1},
		},
		{
			name: "not retryable", steps: []rpctest.Step{rpctest.Fail(codes.NotFound, "")},
			calls: counts{"NotFound": 1}, tries: counts{"NotFound": 1}, refused: counts{"not_retryable": 1},
		},
		{
			name: "one retry", steps: []rpctest.Step{unavailable, ok},
			calls: counts{"OK": 1}, tries: counts{"Unavailable": 1, "OK": 1}, retries: counts{"Unavailable": 1}, saved: 1,
		},
		{
			name: "attempts used up", steps: []rpctest.Step{unavailable},
			calls: counts{"Unavailable": 1}, tries: counts{"Unavailable": 3}, retries: counts{"Unavailable": 2}, refused: counts{"max_attempts": 1},
		},
		{
			name: "answered at last", steps: []rpctest.Step{unavailable, rpctest.Fail(codes.NotFound, "")},
			calls: counts{"NotFound": 1}, tries: counts{"Unavailable": 1, "NotFound": 1}, retries: counts{"Unavailable": 1}, refused: counts{"not_retryable": 1},
		},
		{
			name: "empty budget", steps: []rpctest.Step{unavailable}, options: []retrybudget.Option{bucket(0)},
			calls: counts{"Unavailable": 1}, tries: counts{"Unavailable": 1}, refused: counts{"budget": 1},
		},
		{
			name: "cancelled during the wait", steps: []rpctest.Step{unavailable}, options: []retrybudget.Option{
				retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(time.Hour)}),
			},
			calls: counts{"Canceled": 1}, tries: counts{"Unavailable": 1}, refused: counts{"canceled": 1},
		},
		{
			name: "deadline passed in the first attempt", steps: []rpctest.Step{rpctest.Hang()}, options: []retrybudget.Option{
				retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 6, Timeout: 200 * time.Millisecond, RetryableCodes: []codes.Code{codes.Unavailable, codes.DeadlineExceeded}}),
			},
			calls: counts{"DeadlineExceeded": 1}, tries: counts{"DeadlineExceeded": 1}, refused: counts{"deadline": 1},
		},
		{
			name: "pushback", steps: []rpctest.Step{rpctest.Pushback(unavailable, "-1")},
			calls: counts{"Unavailable": 1}, tries: counts{"Unavailable": 1}, refused: counts{"pushback": 1},
		},
		{
			name: "disabled", steps: []rpctest.Step{unavailable}, call: []grpc.CallOption{retrybudget.CallDisabled()},
			calls: counts{"Unavailable": 1}, tries: counts{"Unavailable": 1}, refused: counts{"disabled": 1},
		},
		{
			name: "a code that gRPC does not know", steps: []rpctest.Step{rpctest.Fail(4711, "")},
			calls: counts{"Unknown": 1}, tries: counts{"Unknown": 1}, refused: counts{"not_retryable": 1},
		},
		{
			name: "forty attempts", steps: []rpctest.Step{unavailable}, options: []retrybudget.Option{atOnce(40)},
			calls: counts{"Unavailable": 1}, tries: counts{"Unavailable": 40}, retries: counts{"Unavailable": 39}, refused: counts{"max_attempts": 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				r, m := observed(t, tt.options...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(10*time.Minute, cancel)

				_ = rpctest.Call(ctx, s.Dial(t, r.DialOptions()...), tt.call...)

				got := collect(t, m)
				assert.Equal(t, tt.calls, got.by("calls_total", "grpc_code"))
				assert.Equal(t, tt.tries, got.by("attempts_total", "grpc_code"))
				assert.Equal(t, orEmpty(tt.retries), got.by("retries_total", "grpc_code"))
				assert.Equal(t, orEmpty(tt.refused), got.by("refused_total", "reason"))
				assert.InDelta(t, tt.saved, got.sum("retries_succeeded_total"), 0)
				assert.InDelta(t, s.Attempts(""), got.sum("attempts_total"), 0, "as the server counts them")
				assert.InDelta(t, got.sum("retries_total"), got.sum("wait_seconds"), 0, "each waited once")
				perCall := got.series("call_attempts")[0].GetHistogram()
				assert.EqualValues(t, 1, perCall.GetSampleCount())
				assert.InDelta(t, s.Attempts(""), perCall.GetSampleSum(), 0)
				assert.Len(t, got.series("retries_succeeded_total"), min(1, len(tt.retries)), "0 if retries were sent and none succeeded")
			})
		})
	}
}

func orEmpty(c counts) counts {
	if c == nil {
		return counts{}
	}
	return c
}

// Everything there is, as Prometheus reads it: a call whose first attempt fails is
// not hidden by the retry that saves it, and the wait is told apart.
func TestMetrics_allOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.After(10*time.Millisecond, rpctest.WithTrailer(rpctest.Unavailable(), "retrybudget-exhausted", "1")),
			rpctest.After(10*time.Millisecond, rpctest.OK()))
		r, m := observed(t, bucket(5), retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(100 * time.Millisecond)}))

		require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		assert.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(`
# HELP grpc_retrybudget_attempts_total Attempts that ended, first ones and retries, by their code.
# TYPE grpc_retrybudget_attempts_total counter
grpc_retrybudget_attempts_total{grpc_code="OK",grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
grpc_retrybudget_attempts_total{grpc_code="Unavailable",grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_budget_capacity_tokens Most tokens that the budget can hold.
# TYPE grpc_retrybudget_budget_capacity_tokens gauge
grpc_retrybudget_budget_capacity_tokens{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 20
# HELP grpc_retrybudget_budget_lowest_tokens Tokens in the emptiest of the budgets that budget_tokens adds up.
# TYPE grpc_retrybudget_budget_lowest_tokens gauge
grpc_retrybudget_budget_lowest_tokens{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_budget_tokens Tokens in the budget that retries could take now; one pays for an ordinary retry.
# TYPE grpc_retrybudget_budget_tokens gauge
grpc_retrybudget_budget_tokens{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_call_attempts Attempts of a call that ended.
# TYPE grpc_retrybudget_call_attempts histogram
grpc_retrybudget_call_attempts_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="1"} 0
grpc_retrybudget_call_attempts_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="2"} 1
grpc_retrybudget_call_attempts_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="3"} 1
grpc_retrybudget_call_attempts_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="4"} 1
grpc_retrybudget_call_attempts_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="5"} 1
grpc_retrybudget_call_attempts_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="10"} 1
grpc_retrybudget_call_attempts_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="+Inf"} 1
grpc_retrybudget_call_attempts_sum{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 2
grpc_retrybudget_call_attempts_count{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_calls_total Calls of the application that ended, by the code that it got.
# TYPE grpc_retrybudget_calls_total counter
grpc_retrybudget_calls_total{grpc_code="OK",grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_hinted_failures_total Failed attempts whose server said that its own retries were refused further down.
# TYPE grpc_retrybudget_hinted_failures_total counter
grpc_retrybudget_hinted_failures_total{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_replay_bytes Bytes that streams hold to send them again on a retry.
# TYPE grpc_retrybudget_replay_bytes gauge
grpc_retrybudget_replay_bytes 0
# HELP grpc_retrybudget_retries_succeeded_total Retries that ended OK.
# TYPE grpc_retrybudget_retries_succeeded_total counter
grpc_retrybudget_retries_succeeded_total{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_retries_total Retries sent, by the code of the failure before, and whether the server's guidance set the wait.
# TYPE grpc_retrybudget_retries_total counter
grpc_retrybudget_retries_total{grpc_code="Unavailable",grpc_method="Method",grpc_service="test.Service",guidance="false",target="passthrough:///bufnet"} 1
# HELP grpc_retrybudget_wait_seconds Time that a retry waited before it was sent.
# TYPE grpc_retrybudget_wait_seconds histogram
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="0.005"} 0
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="0.01"} 0
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="0.025"} 0
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="0.05"} 0
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="0.1"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="0.25"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="0.5"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="1"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="2.5"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="5"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="10"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="30"} 1
grpc_retrybudget_wait_seconds_bucket{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet",le="+Inf"} 1
grpc_retrybudget_wait_seconds_sum{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 0.1
grpc_retrybudget_wait_seconds_count{grpc_method="Method",grpc_service="test.Service",target="passthrough:///bufnet"} 1
`)))
	})
}

// A retry that the server asked for is told apart from one that the client chose.
func TestMetrics_guidance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Pushback(rpctest.Unavailable(), "2000"), rpctest.Unavailable(), rpctest.OK())
		r, m := observed(t)

		require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		got := collect(t, m)
		assert.Equal(t, counts{"true": 1, "false": 1}, got.by("retries_total", "guidance"))
		assert.InDelta(t, 2, got.series("wait_seconds")[0].GetHistogram().GetSampleSum(), 0.1)
	})
}

// Hinted failures are counted whether a retry follows them or not.
func TestMetrics_hintedFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.WithTrailer(rpctest.Unavailable(), "retrybudget-exhausted", "1"))
		r, m := observed(t, atOnce(3))

		require.Error(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		got := collect(t, m)
		assert.InDelta(t, 3, got.sum("hinted_failures_total"), 0)
		assert.InDelta(t, 3, s.Attempts(""), 0)
	})
}

// In Observe mode nothing is refused; what would have been is told apart.
func TestMetrics_observeMode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		r, m := observed(t, bucket(0), retrybudget.WithMode(retrybudget.Observe))

		require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		got := collect(t, m)
		assert.InDelta(t, 1, got.sum("would_refuse_total"), 0)
		assert.InDelta(t, 1, got.sum("retries_total"), 0)
		assert.InDelta(t, 0, got.sum("refused_total"), 0)
	})
}
