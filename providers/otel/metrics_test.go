package otel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retryotel "github.com/retrybudget/retrybudget/providers/otel"
)

func TestMetrics_ofOneCall(t *testing.T) {
	t.Parallel()
	unavailable := rpctest.Unavailable()
	empty := retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{}))
	for _, tt := range []struct {
		name    string
		steps   []rpctest.Step
		options []retrybudget.Option
		want    []string
	}{
		{"OK", []rpctest.Step{rpctest.OK()}, nil, []string{
			"attempts rpc.response.status_code=OK: 1",
			"call.attempts: 1 in 1",
			"calls rpc.response.status_code=OK: 1",
		}},
		{"not retryable", []rpctest.Step{rpctest.Fail(codes.NotFound, "none")}, nil, []string{
			"attempts rpc.response.status_code=NOT_FOUND: 1",
			"call.attempts: 1 in 1",
			"calls rpc.response.status_code=NOT_FOUND: 1",
			"refused reason=not_retryable: 1",
		}},
		{"a code that gRPC does not know", []rpctest.Step{rpctest.Fail(99, "odd")}, nil, []string{
			"attempts rpc.response.status_code=UNKNOWN: 1",
			"call.attempts: 1 in 1",
			"calls rpc.response.status_code=UNKNOWN: 1",
			"refused reason=not_retryable: 1",
		}},
		{"a retry succeeds", []rpctest.Step{unavailable, rpctest.Pushback(unavailable, "40"), rpctest.OK()}, nil, []string{
			"attempts rpc.response.status_code=OK: 1",
			"attempts rpc.response.status_code=UNAVAILABLE: 2",
			"call.attempts: 3 in 1",
			"calls rpc.response.status_code=OK: 1",
			"retries from_guidance=false rpc.response.status_code=UNAVAILABLE: 1",
			"retries from_guidance=true rpc.response.status_code=UNAVAILABLE: 1",
			"retries_succeeded: 1",
			"wait: 0.14 in 2",
		}},
		{"all attempts fail", []rpctest.Step{unavailable}, nil, []string{
			"attempts rpc.response.status_code=UNAVAILABLE: 3",
			"call.attempts: 3 in 1",
			"calls rpc.response.status_code=UNAVAILABLE: 1",
			"refused reason=max_attempts: 1",
			"retries from_guidance=false rpc.response.status_code=UNAVAILABLE: 2",
			"retries_succeeded: 0",
			"wait: 0.2 in 2",
		}},
		{"the budget refuses", []rpctest.Step{rpctest.WithTrailer(unavailable, "retrybudget-exhausted", "1")}, []retrybudget.Option{empty}, []string{
			"attempts rpc.response.status_code=UNAVAILABLE: 1",
			"call.attempts: 1 in 1",
			"calls rpc.response.status_code=UNAVAILABLE: 1",
			"hinted_failures: 1",
			"refused reason=budget: 1",
		}},
		{"the budget would refuse", []rpctest.Step{rpctest.WithTrailer(unavailable, "retrybudget-exhausted", "1"), rpctest.OK()}, []retrybudget.Option{empty, retrybudget.WithMode(retrybudget.Observe)}, []string{
			"attempts rpc.response.status_code=OK: 1",
			"attempts rpc.response.status_code=UNAVAILABLE: 1",
			"call.attempts: 2 in 1",
			"calls rpc.response.status_code=OK: 1",
			"hinted_failures: 1",
			"retries from_guidance=false rpc.response.status_code=UNAVAILABLE: 1",
			"retries_succeeded: 1",
			"wait: 0.1 in 1",
			"would_refuse: 1",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				m, reader := newMetrics(t)
				r := newRetrier(t, append([]retrybudget.Option{every(100*time.Millisecond, 3), retrybudget.WithObserver(m)}, tt.options...)...)
				_ = rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...))

				assert.Equal(t, tt.want, counts(t, reader, "replay.size"))
				assert.InDelta(t, s.Attempts(""), total(t, reader, "retrybudget.attempts"), 0, "as many as the server saw")
			})
		})
	}
}

// The caller gives up in the wait: that is the call's code, and not an attempt's.
func TestMetrics_callAndAttemptDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		m, reader := newMetrics(t)
		cc := s.Dial(t, newRetrier(t, every(time.Hour, 3), retrybudget.WithObserver(m)).DialOptions()...)
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Second, cancel).Stop()
		require.Error(t, rpctest.Call(ctx, cc))
		assert.Equal(t, []string{
			"attempts rpc.response.status_code=UNAVAILABLE: 1",
			"call.attempts: 1 in 1",
			"calls rpc.response.status_code=CANCELLED: 1",
			"refused reason=canceled: 1",
		}, counts(t, reader, "replay.size"))
	})
}

// What is counted leads to a trace of a call that it counted, if that is sampled.
func TestMetrics_exemplars(t *testing.T) {
	t.Parallel()
	s := rpctest.New()
	s.Script(rpctest.Method, rpctest.Unavailable())
	m, reader := newMetrics(t)
	tp, _ := newTraces()
	ctx, span := tp.Tracer("test").Start(t.Context(), "work")
	require.Error(t, rpctest.Call(ctx, s.Dial(t, newRetrier(t, every(0, 2), retrybudget.WithObserver(m)).DialOptions()...)))
	id := span.SpanContext().TraceID()
	for _, metric := range read(t, reader) {
		var of []byte
		switch data := metric.Data.(type) {
		case metricdata.Sum[int64]:
			if data.DataPoints[0].Value == 0 {
				continue // retries_succeeded
			}
			of = data.DataPoints[0].Exemplars[0].TraceID
		case metricdata.Histogram[int64]:
			of = data.DataPoints[0].Exemplars[0].TraceID
		case metricdata.Histogram[float64]:
			of = data.DataPoints[0].Exemplars[0].TraceID
		default:
			continue // gauges belong to no call
		}
		assert.Equal(t, id[:], of, metric.Name)
	}
}

// answers are the ways in which a server of booksBalance answers.
func answers() []rpctest.Step {
	unavailable := rpctest.Unavailable()
	return []rpctest.Step{
		rpctest.OK(), rpctest.OK(), unavailable, unavailable, unavailable,
		rpctest.Fail(codes.NotFound, "none"), rpctest.Fail(codes.DeadlineExceeded, "mine"), rpctest.RetryInfo(codes.ResourceExhausted, 5*time.Millisecond),
		rpctest.Pushback(unavailable, "3"), rpctest.Pushback(unavailable, "-1"), rpctest.WithTrailer(unavailable, "retrybudget-exhausted", "1"),
	}
}

// Whatever happens to calls, attempts = calls + retries, the refusals add up to
// the failed calls, and the server saw as many attempts.
func TestMetrics_booksBalance(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { booksBalance(t, rand.New(rand.NewPCG(seed, 9))) })
		})
	}
}

func booksBalance(t *testing.T, chance *rand.Rand) {
	const callers, each = 8, 50
	s := rpctest.New()
	m, reader := newMetrics(t)
	r := newRetrier(t, every(time.Millisecond, 4), retrybudget.WithObserver(m),
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 20})))
	m.Watch(r)
	cc := s.Dial(t, r.DialOptions()...)
	var mu sync.Mutex
	failed := map[codes.Code]int{}
	var wg sync.WaitGroup
	for caller := range callers {
		name := fmt.Sprintf("/test.Service/Method%d", caller%3)
		steps := make([]rpctest.Step, 0, each)
		for range each {
			steps = append(steps, answers()[chance.IntN(len(answers()))])
		}
		s.Script(name, steps...)
		wg.Go(func() {
			for range each {
				if err := rpctest.CallMethod(t.Context(), cc, name); err != nil {
					mu.Lock()
					failed[status.Code(err)]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()

	sum := func(name string, with ...attribute.KeyValue) int {
		return int(total(t, reader, "retrybudget."+name, with...))
	}
	code := attribute.Key("rpc.response.status_code")
	calls, bad := sum("calls"), 0
	for _, n := range failed {
		bad += n
	}
	assert.Equal(t, callers*each, calls)
	assert.Equal(t, bad, calls-sum("calls", code.String("OK")))
	assert.Equal(t, failed[codes.NotFound], sum("calls", code.String("NOT_FOUND")))
	assert.Positive(t, sum("retries"))
	assert.Equal(t, calls+sum("retries"), sum("attempts"))
	assert.Equal(t, s.Attempts(""), sum("attempts"))
	assert.Equal(t, bad, sum("refused"))
	assert.Positive(t, sum("refused", attribute.String("retrybudget.reason", "budget")))
	assert.Equal(t, calls, sum("call.attempts"), "how many calls")
	assert.Equal(t, sum("retries"), sum("wait"), "how many waits")
	assert.Equal(t, sum("attempts", code.String("OK")), sum("calls", code.String("OK")))

	var tokens float64
	for b := range r.Budgets() {
		tokens += b.Tokens
	}
	assert.InDelta(t, tokens, total(t, reader, "retrybudget.budget.tokens"), 1e-9)
}

func TestNewMetrics_refuses(t *testing.T) {
	t.Parallel()
	_, err := retryotel.NewMetrics(nil)
	assert.EqualError(t, err, "retrybudget: NewMetrics: nil MeterProvider")
	_, err = retryotel.NewMetrics(noop.NewMeterProvider(), retryotel.WithMaxKeys(0))
	assert.EqualError(t, err, "retrybudget: otel.WithMaxKeys 0 is not at least 1")
	_, err = retryotel.NewMetrics(brokenProvider{})
	assert.ErrorContains(t, err, "retrybudget: NewMetrics: ")
	assert.ErrorContains(t, err, "no retrybudget.calls")
	assert.ErrorContains(t, err, "no retrybudget.wait")
	_, err = retryotel.NewMetrics(noop.NewMeterProvider(), retryotel.WithMaxKeys(1), nil)
	assert.EqualError(t, err, "retrybudget: NewMetrics: option 1 is nil")
	_, err = retryotel.NewMetrics(noop.NewMeterProvider())
	assert.NoError(t, err)
}

// Else the first collection would find out, in another goroutine.
func TestMetrics_watchRefusesNil(t *testing.T) {
	t.Parallel()
	m, _ := newMetrics(t)
	assert.PanicsWithValue(t, "retrybudget: Metrics.Watch: nil Retrier", func() { m.Watch(nil) })
}

// brokenProvider makes no instrument of some kinds.
type brokenProvider struct{ noop.MeterProvider }

func (brokenProvider) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func (brokenMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errors.New("no " + name)
}

func (brokenMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errors.New("no " + name)
}

// Not parallel: it counts the allocations of the whole process.
func TestMetrics_successAllocatesNothing(t *testing.T) {
	m, _ := newMetrics(t)
	e := ended(t.Context(), "dns:///a:1", "/a.B/C")
	m.CallEnded(e)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { m.CallEnded(e) }))
}

func BenchmarkMetrics_success(b *testing.B) {
	m, _ := newMetrics(b)
	e := ended(b.Context(), "dns:///a:1", "/a.B/C")
	b.ReportAllocs()
	for b.Loop() {
		m.CallEnded(e)
	}
}
