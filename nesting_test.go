package retrybudget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

const (
	attemptHeader = "grpc-previous-rpc-attempts"
	otherMethod   = "/test.Service/Other"
)

// headersOf returns what the attempts at a method carried under a metadata key.
func headersOf(s *rpctest.Server, method, key string) [][]string {
	var all [][]string
	for _, e := range s.Entries("") {
		if e.Method == method {
			all = append(all, e.MD.Get(key))
		}
	}
	return all
}

// callsOther makes a call of another method with each attempt's context, as a
// credential plugin or a token refresher does.
func callsOther(a attemptSeen) error {
	if a.method == rpctest.Method {
		if err := rpctest.CallMethod(a.ctx, a.cc, otherMethod); err != nil {
			return err
		}
	}
	return a.send(a.ctx)
}

func TestNesting_callInsideARetryStartsAfresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		outer, inner := &budgetLedger{grants: -1}, &budgetLedger{grants: -1}
		r, err := retrybudget.New(retrybudget.WithBudget(func(_, method string) (retrybudget.Budget, error) {
			if method == otherMethod {
				return inner, nil
			}
			return outer, nil
		}))
		require.NoError(t, err)
		cc := s.Dial(t, with(r, callsOther)...)
		start := time.Now()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "k", "v")

		require.NoError(t, rpctest.Call(ctx, cc))

		assert.Less(t, time.Since(start), time.Second)
		assert.Equal(t, [][]string{nil, {"1"}}, headersOf(s, rpctest.Method, attemptHeader))
		assert.Equal(t, [][]string{nil, nil}, headersOf(s, otherMethod, attemptHeader))
		assert.Equal(t, [][]string{{"v"}, {"v"}}, headersOf(s, otherMethod, "k"), "other metadata goes along")
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 succeeded"}, outer.read())
		assert.Equal(t, []string{"success", "success"}, inner.read())
	})
}

func TestNesting_callInsideARetryCountsItsOwnAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		// The nested call of attempt 1 succeeds, that of attempt 2 needs three attempts.
		s.Script(otherMethod, rpctest.OK(), rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		var seen []int
		cc := s.Dial(t, with(newRetrier(t), func(a attemptSeen) error {
			if a.method == otherMethod {
				seen = append(seen, retrybudget.AttemptFromContext(a.ctx))
			}
			return callsOther(a)
		})...)

		require.NoError(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, 2, s.AttemptsOf(rpctest.Method))
		assert.Equal(t, [][]string{nil, nil, {"1"}, {"2"}}, headersOf(s, otherMethod, attemptHeader))
		assert.Equal(t, []int{1, 1, 2, 3}, seen)
	})
}

func TestNesting_sameRetrierTwiceChargesOncePerRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal))
		cc := s.Dial(t, append(r.DialOptions(), grpc.WithChainUnaryInterceptor(r.UnaryClientInterceptor()))...)

		require.Error(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, headersOf(s, rpctest.Method, attemptHeader))
		assert.Equal(t, []string{
			"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed",
			"failure Unavailable 2", "grant Unavailable 2", "settle Unavailable 2 failed",
			"failure Unavailable 3",
		}, ledger.read())
		assert.Len(t, journal.retries, 2)
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonMaxAttempts}, journal.reasons())

		require.NoError(t, rpctest.CallMethod(t.Context(), cc, otherMethod))
		assert.Equal(t, "success", ledger.read()[7], "one deposit for the call")
		assert.Len(t, ledger.read(), 8)
	})
}

// Two Retriers on one connection do multiply, but the inner one must not take
// the outer one's attempts for calls of somebody else.
func TestNesting_twoRetriersKeepTheOuterOnesHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Aborted, ""), rpctest.OK())
		outer := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{IdempotencyKey: "key"}))
		inner := newRetrier(t)
		cc := s.Dial(t, append(outer.DialOptions(), inner.DialOptions()...)...)

		require.NoError(t, rpctest.Call(t.Context(), cc))

		keys := headersOf(s, rpctest.Method, "key")
		require.Len(t, keys, 2)
		assert.Len(t, keys[0], 1, "the idempotency key gets through")
		assert.Equal(t, keys[0], keys[1], "the same on all attempts")
		assert.Equal(t, [][]string{nil, {"1"}}, headersOf(s, rpctest.Method, attemptHeader))
	})
}

// This is why one Retrier should serve everything.
func TestNesting_twoRetriersMultiply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		two := retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 2})
		cc := s.Dial(t, append(newRetrier(t, two).DialOptions(), newRetrier(t, two).DialOptions()...)...)

		require.Error(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, [][]string{nil, {"1"}, {"1"}, {"1"}}, headersOf(s, rpctest.Method, attemptHeader))
	})
}

func TestNesting_callInsideTwoRetriersStartsAfresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		outer := newRetrier(t, retrybudget.WithMethodPolicy(rpctest.Method, retrybudget.Policy{IdempotencyKey: "key"}))
		inner := newRetrier(t)
		cc := s.Dial(t, append(outer.DialOptions(), with(inner, callsOther)...)...)

		require.NoError(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, [][]string{nil, {"1"}}, headersOf(s, rpctest.Method, attemptHeader))
		assert.Equal(t, [][]string{nil, nil}, headersOf(s, otherMethod, attemptHeader))
		assert.Equal(t, [][]string{nil, nil}, headersOf(s, otherMethod, "key"), "the key of another call")
	})
}

func TestNesting_nativeRetriesMultiplyUnlessSwitchedOff(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		install  func(r *retrybudget.Retrier) []grpc.DialOption
		attempts int
		warnings int
	}{
		{"plain dial option", func(r *retrybudget.Retrier) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithUnaryInterceptor(r.UnaryClientInterceptor())}
		}, 9, 1},
		{"DialOptions", (*retrybudget.Retrier).DialOptions, 3, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithObserver(journal))
				cc := s.Dial(t, append(test.install(r), grpc.WithDefaultServiceConfig(nativePolicy))...)

				for range 3 {
					require.Error(t, rpctest.Call(t.Context(), cc))
				}

				assert.Equal(t, 3*test.attempts, s.Attempts(""))
				assert.Len(t, journal.retries, 6, "what this layer sent")
				require.Len(t, journal.warnings, test.warnings, "once a method")
				for _, w := range journal.warnings {
					assert.Equal(t, rpctest.Method, w.Method)
					assert.Equal(t, cc.Target(), w.Target)
					assert.Contains(t, w.Text, "retryPolicy")
				}
			})
		})
	}
}

func TestNesting_nativeRetryIsReportedForEachMethod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		s.Script(otherMethod, rpctest.Unavailable())
		journal := &callJournal{}
		r := newRetrier(t, retrybudget.WithObserver(journal))
		config := `{"methodConfig":[{"name":[{"service":"test.Service","method":"Other"}],"retryPolicy":{"maxAttempts":2,
			"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
		cc := s.Dial(t, grpc.WithUnaryInterceptor(r.UnaryClientInterceptor()), grpc.WithDefaultServiceConfig(config))

		require.Error(t, rpctest.Call(t.Context(), cc))
		assert.Empty(t, journal.warnings, "no policy for this method")
		require.Error(t, rpctest.CallMethod(t.Context(), cc, otherMethod))
		require.Len(t, journal.warnings, 1)
		assert.Equal(t, otherMethod, journal.warnings[0].Method)
	})
}

// A server that sends response headers before it fails stops native retries, but
// not this library's.
func TestNesting_responseHeadersStopNativeRetriesOnly(t *testing.T) {
	t.Parallel()
	early := func(next rpctest.Step) rpctest.Step { return rpctest.WithHeader(next, "x-id", "1") }
	native := []grpc.DialOption{grpc.WithDefaultServiceConfig(nativePolicy)}
	tests := []struct {
		name     string
		steps    []rpctest.Step
		native   bool
		attempts int
	}{
		{"native, headers first", []rpctest.Step{early(rpctest.Unavailable()), early(rpctest.OK())}, true, 1},
		{"native, without headers", []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}, true, 2},
		{"retrybudget, headers first", []rpctest.Step{early(rpctest.Unavailable()), early(rpctest.OK())}, false, 2},
		{"retrybudget, without headers", []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}, false, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.steps...)
				opts := native
				if !test.native {
					opts = newRetrier(t).DialOptions()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()

				err := rpctest.Call(ctx, s.Dial(t, opts...))

				assert.Equal(t, test.attempts, s.Attempts(""))
				assert.Equal(t, test.attempts == 2, err == nil, "%v", err)
			})
		})
	}
}
