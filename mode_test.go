package retrybudget_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

func TestDisabled_returnsTheSameErrorValue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opts []retrybudget.Option
		call []grpc.CallOption
	}{
		{"Off", []retrybudget.Option{retrybudget.WithMode(retrybudget.Off)}, nil},
		{"MaxAttempts 1", []retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 1})}, nil},
		{"CallMaxAttempts 1", nil, []grpc.CallOption{retrybudget.CallMaxAttempts(1)}},
		{"CallDisabled", nil, []grpc.CallOption{retrybudget.CallDisabled()}},
		{"Off outranks CallMaxAttempts", []retrybudget.Option{retrybudget.WithMode(retrybudget.Off)}, []grpc.CallOption{retrybudget.CallMaxAttempts(5)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, append(test.opts, ledger.option(), retrybudget.WithObserver(journal))...)
				var inner error
				cc := s.Dial(t, with(r, func(a attemptSeen) error {
					inner = a.send(a.ctx)
					return inner
				})...)

				err := rpctest.Call(t.Context(), cc, test.call...)

				require.Equal(t, codes.Unavailable, status.Code(err))
				assert.Same(t, inner, err)
				assert.Equal(t, 1, s.Attempts(""))
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDisabled}, journal.reasons())
				assert.Empty(t, journal.refusals, "nothing was refused: it was not wanted")
				assert.NotContains(t, ledger.read(), "grant Unavailable 1")

				require.NoError(t, rpctest.CallMethod(t.Context(), cc, otherMethod, test.call...))
				assert.Contains(t, ledger.read(), "success", "a success funds the budget all the same")
			})
		})
	}
}

func TestDisabled_policyTimeoutStillHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Hang())
		r := newRetrier(t, retrybudget.WithMode(retrybudget.Off), retrybudget.WithPolicy(retrybudget.Policy{Timeout: 100 * ms}))
		start := time.Now()

		err := rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...))

		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.Equal(t, 100*ms, time.Since(start))
	})
}

func TestMode_switching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		journal := &callJournal{}
		r := newRetrier(t, retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{})), // empty
			retrybudget.WithObserver(journal), retrybudget.WithMethodPolicy(rpctest.Method, retrybudget.Policy{MaxAttempts: 4}))
		cc := s.Dial(t, r.DialOptions()...)

		for _, step := range []struct {
			mode     retrybudget.Mode
			attempts int
			reason   retrybudget.Reason
			refusals int // of the budget that were only reported
		}{
			{retrybudget.Enforce, 1, retrybudget.ReasonBudget, 0},
			{retrybudget.Observe, 4, retrybudget.ReasonMaxAttempts, 3},
			{retrybudget.Off, 1, retrybudget.ReasonDisabled, 0},
			{retrybudget.Observe, 4, retrybudget.ReasonMaxAttempts, 3},
			{retrybudget.Enforce, 1, retrybudget.ReasonBudget, 0},
		} {
			require.NoError(t, r.SetMode(step.mode))
			before, refused := s.Attempts(""), len(journal.refusals)

			require.Error(t, rpctest.Call(t.Context(), cc))

			assert.Equal(t, step.attempts, s.Attempts("")-before)
			reasons := journal.reasons()
			assert.Equal(t, step.reason, reasons[len(reasons)-1])
			observed := 0
			for _, e := range journal.refusals[refused:] {
				if e.Observed {
					observed++
					assert.Equal(t, retrybudget.ReasonBudget, e.Reason)
				}
			}
			assert.Equal(t, step.refusals, observed)
		}
		assert.EqualError(t, r.SetMode(3), "retrybudget: SetMode 3 is not a known mode")
	})
}

// Observe reports what Enforce would do, so its budget must be spent like there.
func TestMode_observeSpendsTheBudgetAndSettlesOnlyGrants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		ledger := &budgetLedger{grants: 1}
		r := newRetrier(t, ledger.option(), retrybudget.WithMode(retrybudget.Observe))

		require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		assert.Equal(t, []string{
			"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed",
			"failure Unavailable 2", "refuse Unavailable 2",
		}, ledger.read())
	})
}

func TestMode_observeStillObeysTheServerTheDeadlineAndAttempts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		step     rpctest.Step
		deadline time.Duration
		attempts int
		reason   retrybudget.Reason
	}{
		"veto":     {rpctest.Pushback(rpctest.Unavailable(), "-1"), time.Hour, 1, retrybudget.ReasonPushback},
		"attempts": {rpctest.Unavailable(), time.Hour, 3, retrybudget.ReasonMaxAttempts},
		"deadline": {rpctest.Pushback(rpctest.Unavailable(), "20"), 10 * ms, 1, retrybudget.ReasonDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.step)
				ledger := &budgetLedger{}
				r := newRetrier(t, ledger.option(), retrybudget.WithMode(retrybudget.Observe))

				err := rpctest.Call(after(t, test.deadline), s.Dial(t, r.DialOptions()...))

				assert.Equal(t, test.attempts, s.Attempts(""))
				assert.Equal(t, test.reason, errorOf(t, err).Reason)
			})
		})
	}
}

// Off is for incidents: a call that waits for its retry when the switch is turned
// does not send it.
func TestMode_offStopsTheRetriesOfCallsUnderWay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		at     time.Duration // when it is switched off; attempts take 20 ms, waits 50 ms
		sent   int
		ledger []string
	}{
		{"in the first attempt", 10 * ms, 1, nil},
		{"in the first wait", 30 * ms, 1, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 abandoned"}},
		{"in the second attempt", 80 * ms, 2, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.After(20*ms, rpctest.Unavailable()))
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal),
					retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 9, Backoff: exact(50*ms, 1)}))
				var inner error
				cc := s.Dial(t, with(r, func(a attemptSeen) error {
					inner = a.send(a.ctx)
					return inner
				})...)
				time.AfterFunc(test.at, func() { assert.NoError(t, r.SetMode(retrybudget.Off)) })

				err := rpctest.Call(t.Context(), cc)

				require.Equal(t, codes.Unavailable, status.Code(err))
				assert.Same(t, inner, err)
				assert.Equal(t, test.sent, s.Attempts(""))
				assert.Len(t, journal.retries, test.sent-1)
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDisabled}, journal.reasons())
				assert.Equal(t, test.ledger, ledger.read())
			})
		})
	}
}

// Switching while calls run is safe, and each of them ends one way or another.
func TestMode_switchingUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.After(ms, rpctest.Unavailable()))
		journal := &callJournal{}
		// Three attempts fit into the time before the first Off.
		r := newRetrier(t, retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(5 * ms)}))
		cc := s.Dial(t, r.DialOptions()...)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					assert.Error(t, rpctest.Call(t.Context(), cc))
				}
			})
		}
		wg.Go(func() {
			for i := range 100 {
				assert.NoError(t, r.SetMode(retrybudget.Mode(i%3)))
				<-time.After(20 * ms)
			}
		})
		wg.Wait()

		reasons := journal.reasons()
		assert.Len(t, reasons, 400)
		assert.Contains(t, reasons, retrybudget.ReasonDisabled)
		assert.Contains(t, reasons, retrybudget.ReasonMaxAttempts)
		assert.Equal(t, s.Attempts(""), len(reasons)+len(journal.retries), "attempts = calls + retries")
	})
}
