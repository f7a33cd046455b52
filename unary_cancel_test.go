package retrybudget_test

import (
	"context"
	"errors"
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

func TestUnary_cancelDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"))
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal),
			retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(time.Hour, 1)}))
		cc := s.Dial(t, r.DialOptions()...)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("user closed the window")
		time.AfterFunc(30*time.Millisecond, func() { cancel(why) })
		start := time.Now()

		err := rpctest.Call(ctx, cc)

		assert.Equal(t, 30*time.Millisecond, time.Since(start))
		assert.Equal(t, 1, s.Attempts(""))
		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, why)
		assert.NotErrorIs(t, err, retrybudget.ErrDeadline)
		assert.ErrorContains(t, err, "code = Unavailable desc = shard 7 down")
		own := errorOf(t, err)
		assert.Equal(t, retrybudget.ReasonCanceled, own.Reason)
		assert.Equal(t, 1, own.Attempts)
		assert.ErrorIs(t, err, own.History[0].Err)
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonCanceled}, journal.reasons())
		assert.Empty(t, journal.retries, "no retry was sent")
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 abandoned"}, ledger.read())
	})
}

func TestUnary_cancelDuringARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"), rpctest.Hang())
		ledger := &budgetLedger{grants: -1}
		r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{
			Backoff: exact(10*time.Millisecond, 1), RetryableCodes: []codes.Code{codes.Unavailable, codes.Canceled},
		}))
		cc := s.Dial(t, r.DialOptions()...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Millisecond, cancel)
		start := time.Now()

		err := rpctest.Call(ctx, cc)

		assert.Equal(t, 30*time.Millisecond, time.Since(start))
		assert.Equal(t, 2, s.Attempts(""))
		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, "shard 7 down")
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"}, ledger.read())
	})
}

// A server's answer that comes in when the caller has just gone is still the
// last thing the server said.
func TestUnary_cancelWhileARetryFailsKeepsTheLastServerError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"), rpctest.Fail(codes.Unavailable, "shard 8 down"))
		r := newRetrier(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			err := a.send(a.ctx)
			if a.n == 2 {
				cancel()
			}
			return err
		})...)

		err := rpctest.Call(ctx, cc)

		assert.Equal(t, 2, s.Attempts(""))
		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, "shard 8 down")
		assert.ErrorIs(t, err, errorOf(t, err).History[1].Err)
	})
}

// An answer that stands, stands also when nobody waits for it any more.
func TestUnary_cancelWhileARetryIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Fail(codes.NotFound, "no such article"))
		ledger := &budgetLedger{grants: -1}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var inner error
		cc := s.Dial(t, with(newRetrier(t, ledger.option()), func(a attemptSeen) error {
			inner = a.send(a.ctx)
			if a.n == 2 {
				cancel()
			}
			return inner
		})...)

		err := rpctest.Call(ctx, cc)

		require.Equal(t, codes.NotFound, status.Code(err))
		assert.Same(t, inner, err)
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 answered"}, ledger.read())
	})
}

func TestUnary_cancelOfTheFirstAttemptReturnsItsOwnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Hang())
		ledger := &budgetLedger{grants: -1}
		r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{RetryableCodes: []codes.Code{codes.Canceled}}))
		var inner error
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			inner = a.send(a.ctx)
			return inner
		})...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Millisecond, cancel)

		err := rpctest.Call(ctx, cc)

		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.Same(t, inner, err)
		assert.Equal(t, 1, s.Attempts(""))
		assert.Empty(t, ledger.read())
	})
}
