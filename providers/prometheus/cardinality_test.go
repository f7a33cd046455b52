package prometheus_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// A proxy's method names are chosen by its clients. However many there are, the
// series are bounded, and no call is lost.
func TestMetrics_namesWithoutRoomAreOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		opts  []prometheus.Option
		limit int
	}{
		{"default", nil, 1024},
		{"WithMaxKeys", []prometheus.Option{prometheus.WithMaxKeys(10)}, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const calls = 3000
				m := prometheus.NewMetrics(tt.opts...)
				r := watchedBy(t, m, bucket(0), retrybudget.WithMaxKeys(2*tt.limit))
				s := rpctest.New()
				cc := s.Dial(t, r.DialOptions()...)
				for i := range calls {
					method := fmt.Sprintf("/invented.Service/Method%d", i)
					if i%2 == 0 {
						s.Script(method, rpctest.Unavailable())
					}
					_ = rpctest.CallMethod(t.Context(), cc, method)
				}

				got := collect(t, m)
				for _, family := range []string{"calls_total", "attempts_total", "call_attempts"} {
					assert.InDelta(t, calls, got.sum(family), 0, family)
				}
				assert.InDelta(t, calls/2, got.sum("refused_total"), 0)
				assert.Len(t, got.series("call_attempts"), tt.limit+1)
				for _, family := range []string{"call_attempts", "budget_tokens", "budget_capacity_tokens"} {
					assert.LessOrEqual(t, len(got.series(family)), tt.limit+1, family)
					assert.Len(t, got.series(family, "target=other", "grpc_service=other", "grpc_method=other"), 1, family)
				}
				assert.InDelta(t, calls-tt.limit, got.sum("call_attempts", "grpc_method=other"), 0)
			})
		})
	}
}

// Nor can they fill a scrape with long ones.
func TestMetrics_longNamesAreOther(t *testing.T) {
	t.Parallel()
	m := prometheus.NewMetrics()
	longest := "/a.B/" + strings.Repeat("c", 507)
	for _, method := range []string{longest, longest + "c", longest + "cc"} {
		m.CallEnded(retrybudget.CallEvent{Call: retrybudget.CallInfo{Method: method, Attempt: 1}})
	}

	got := collect(t, m)
	assert.InDelta(t, 1, got.sum("calls_total", "grpc_method="+longest[len("/a.B/"):]), 0)
	assert.InDelta(t, 2, got.sum("calls_total", "grpc_method=other"), 0)
}

// Names found no room in the Retrier first: their common budget is one of "other".
func TestMetrics_commonBudgetIsOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, m := observed(t, retrybudget.WithMaxKeys(1), bucket(1))
		s := rpctest.New()
		for _, method := range []string{"/test.Service/A", "/test.Service/B"} {
			s.Script(method, rpctest.Unavailable(), rpctest.OK())
			require.NoError(t, rpctest.CallMethod(t.Context(), s.Dial(t, r.DialOptions()...), method))
		}

		got := collect(t, m)
		assert.Len(t, got.series("budget_tokens"), 2)
		assert.Len(t, got.series("budget_tokens", "grpc_method=A"), 1)
		assert.Len(t, got.series("budget_tokens", "target=other", "grpc_method=other"), 1)
		assert.InDelta(t, 1, got.sum("calls_total", "grpc_method=B"), 0, "it still has series of its own")
	})
}

// What is no method name, or has the same labels as another, must not fail the
// scrape: it would take all other metrics with it.
func TestMetrics_namesOfAllKinds(t *testing.T) {
	t.Parallel()
	m := prometheus.NewMetrics()
	for _, method := range []string{
		"/pkg.Service/Method", "pkg.Service/Method", "/pkg.Service/Method/More", "/pkg.Service/", "//Method",
		"", "/", "nothing", "/nothing", "/unknown/unknown", "/other/other", "/bad\xff/utf\xc38", "/bad\xfe/utf\xc38",
	} {
		for _, target := range []string{"", "other", "dns:///host:443", "bad\xff", "bad\xfe"} {
			m.CallEnded(retrybudget.CallEvent{Call: retrybudget.CallInfo{Target: target, Method: method, Attempt: 1}})
			m.CallEnded(retrybudget.CallEvent{Call: retrybudget.CallInfo{Target: target, Method: method, Attempt: 2}})
		}
	}

	got := collect(t, m)

	assert.InDelta(t, 2*13*5, got.sum("calls_total"), 0)
	for _, tt := range []struct {
		service, method string
		names           float64
	}{
		{"pkg.Service", "Method", 2},
		{"pkg.Service", "Method/More", 1},
		{"pkg.Service", "", 1},
		{"", "Method", 1},
		{"unknown", "unknown", 5},
		{"other", "other", 1},
		{"bad\uFFFD", "utf\uFFFD8", 2},
	} {
		assert.InDelta(t, 2*5*tt.names, got.sum("calls_total", "grpc_service="+tt.service, "grpc_method="+tt.method), 0, "%s %s", tt.service, tt.method)
	}
}

// Whatever names come, the scrape succeeds and no call is lost.
func FuzzMetrics_names(f *testing.F) {
	f.Add("dns:///host:443", "/pkg.Service/Method", "host", "pkg.Service/Method")
	f.Add("", "", "other", "/other/other")
	f.Add("bad\xff", "/bad\xff/utf\xc38", "bad\xfe", "//")
	f.Fuzz(func(t *testing.T, target, method, target2, method2 string) {
		m := prometheus.NewMetrics(prometheus.WithMaxKeys(3))
		for _, target := range []string{target, target2} {
			for _, method := range []string{method, method2} {
				call := retrybudget.CallInfo{Target: target, Method: method, Attempt: 1}
				m.CallEnded(retrybudget.CallEvent{Call: call})
				call.Attempt = 2
				m.RetrySent(retrybudget.RetryEvent{Call: call})
				m.CallEnded(retrybudget.CallEvent{Call: call, Code: 4711, Reason: retrybudget.ReasonBudget})
			}
		}
		got := collect(t, m)
		assert.InDelta(t, 8, got.sum("calls_total"), 0)
		assert.InDelta(t, 12, got.sum("attempts_total"), 0)
		assert.InDelta(t, 4, got.sum("refused_total"), 0)
	})
}

func TestWithMaxKeys_refusesLessThanOne(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, -1} {
		assert.PanicsWithValue(t, fmt.Sprintf("retrybudget: prometheus.WithMaxKeys %d is not at least 1", n), func() {
			prometheus.NewMetrics(prometheus.WithMaxKeys(n))
		})
	}
}

func TestNewMetrics_refusesNilOption(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "retrybudget: prometheus.NewMetrics: option 1 is nil", func() {
		prometheus.NewMetrics(prometheus.WithMaxKeys(1), nil)
	})
}

// Many goroutines see new names at once, while metrics are collected.
func TestMetrics_newNamesConcurrently(t *testing.T) {
	t.Parallel()
	const goroutines, names = 8, 200
	m := prometheus.NewMetrics(prometheus.WithMaxKeys(names / 2))
	for i := range names {
		call := retrybudget.CallInfo{Method: fmt.Sprintf("/a.Service/Method%d", i), Attempt: 1}
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				<-start
				m.CallEnded(retrybudget.CallEvent{Call: call})
			})
		}
		if i%50 == 0 {
			wg.Go(func() { collect(t, m) })
		}
		close(start)
		wg.Wait()
	}

	got := collect(t, m)
	assert.InDelta(t, goroutines*names, got.sum("calls_total"), 0)
	assert.Len(t, got.series("calls_total"), names/2+1)
	for _, s := range got.series("calls_total", "target=") {
		assert.InDelta(t, goroutines, s.GetCounter().GetValue(), 0, "%v", s)
	}
}
