package retrybudget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// tireless retries whatever a closed connection may produce.
func tireless(wait time.Duration) retrybudget.Option {
	return retrybudget.WithPolicy(retrybudget.Policy{
		MaxAttempts: 100, Backoff: exact(wait, 1), RetryableCodes: []codes.Code{codes.Canceled, codes.Unavailable},
	})
}

func TestClosed_duringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"))
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		r := newRetrier(t, tireless(time.Hour), ledger.option(), retrybudget.WithObserver(journal))
		sent := 0
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			sent++
			return a.send(a.ctx)
		})...)
		time.AfterFunc(20*ms, func() { _ = cc.Close() })
		start := time.Now()

		err := rpctest.Call(t.Context(), cc)

		assert.Equal(t, 20*ms, time.Since(start), "at once")
		assert.Equal(t, 1, sent)
		assert.ErrorIs(t, err, retrybudget.ErrClosed)
		assert.ErrorContains(t, err, "closing")
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, "shard 7 down", status.Convert(err).Message())
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonClosed}, journal.reasons())
		assert.Empty(t, journal.retries)
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 abandoned"}, ledger.read())
		synctest.Wait()
		assert.Zero(t, s.Live.Load())
	})
}

func TestClosed_beforeTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		r := newRetrier(t, tireless(time.Hour), ledger.option(), retrybudget.WithObserver(journal))
		var inner error
		sent := 0
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			sent++
			inner = a.send(a.ctx)
			return inner
		})...)
		require.NoError(t, cc.Close())

		err := rpctest.Call(t.Context(), cc)

		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.Same(t, inner, err)
		assert.Equal(t, 1, sent)
		assert.Zero(t, s.Attempts(""))
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonClosed}, journal.reasons())
		assert.Empty(t, ledger.read())
	})
}

func TestClosed_duringAnAttempt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		steps  []rpctest.Step
		ledger []string
		text   string
	}{
		{"the first", []rpctest.Step{rpctest.Hang()}, nil, "closing"},
		{
			"a retry",
			[]rpctest.Step{rpctest.Fail(codes.Unavailable, "shard 7 down"), rpctest.Hang()},
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"},
			"shard 7 down",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.steps...)
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, tireless(5*ms), ledger.option(), retrybudget.WithObserver(journal))
				cc := s.Dial(t, r.DialOptions()...)
				time.AfterFunc(20*ms, func() { _ = cc.Close() })
				start := time.Now()

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, 20*ms, time.Since(start))
				assert.Equal(t, len(test.steps), s.Attempts(""))
				assert.Contains(t, []codes.Code{codes.Canceled, codes.Unavailable}, status.Code(err))
				assert.ErrorContains(t, err, "closing")
				assert.ErrorContains(t, err, test.text, "the last server error")
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonClosed}, journal.reasons())
				assert.Equal(t, test.ledger, ledger.read())
				synctest.Wait()
				assert.Zero(t, s.Live.Load())
			})
		})
	}
}

// A connection that is closed when an attempt fails is seen before anything is
// asked of the budget.
func TestClosed_whenTheAttemptFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"))
		ledger := &budgetLedger{grants: -1}
		r := newRetrier(t, tireless(0), ledger.option())
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			err := a.send(a.ctx)
			_ = a.cc.Close()
			return err
		})...)

		err := rpctest.Call(t.Context(), cc)

		assert.ErrorIs(t, err, retrybudget.ErrClosed)
		assert.ErrorContains(t, err, "shard 7 down")
		assert.Equal(t, 1, s.Attempts(""))
		assert.Equal(t, []string{"failure Unavailable 1"}, ledger.read())
	})
}

// A connection that breaks and comes back is not closed: the wait goes on.
func TestClosed_notByAConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		cc, way := s.Start(t).DialCuttable(t, newRetrier(t, tireless(time.Minute)).DialOptions()...)
		for _, at := range []time.Duration{10 * time.Second, 20 * time.Second} {
			time.AfterFunc(at, func() {
				way.Cut()
				cc.Connect()
			})
		}

		require.NoError(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, []time.Duration{time.Minute}, s.Gaps(""))
	})
}
