package retrybudget_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// errorOf returns err as the library's own error.
func errorOf(t *testing.T, err error) *retrybudget.Error {
	t.Helper()
	own, ok := errors.AsType[*retrybudget.Error](err)
	require.True(t, ok, "%T is no *retrybudget.Error: %v", err, err)
	return own
}

func TestUnary_attemptsExhaustedKeepsTheStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent, err := status.New(codes.Unavailable, "shard 7 down").WithDetails(&errdetails.ErrorInfo{Reason: "SHARD_DOWN", Domain: "test"})
		require.NoError(t, err)
		s := rpctest.New()
		s.Script(rpctest.Method, func(context.Context, grpc.ServerStream) error { return sent.Err() })
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*time.Millisecond, 1)}))
		var last error
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			last = a.send(a.ctx)
			return last
		})...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()

		err = rpctest.Call(ctx, cc)

		assert.Equal(t, 200*time.Millisecond, time.Since(start))
		assert.Equal(t, 3, s.Attempts(""))
		own := errorOf(t, err)
		assert.Equal(t, retrybudget.ReasonMaxAttempts, own.Reason)
		assert.Equal(t, 3, own.Attempts)
		assert.Len(t, own.History, 3)
		assert.True(t, proto.Equal(sent.Proto(), status.Convert(err).Proto()), "status changed: %v", status.Convert(err).Proto())
		assert.ErrorIs(t, err, retrybudget.ErrAttemptsExhausted)
		assert.ErrorIs(t, err, last)
		assert.EqualError(t, err, "retrybudget: attempts exhausted after 3 attempts: rpc error: code = Unavailable desc = shard 7 down")
	})
}

func TestUnary_budgetRefusalKeepsTheStatusAndDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"))
		ledger := &budgetLedger{}
		r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(time.Second, 1)}))
		cc := s.Dial(t, r.DialOptions()...)
		start := time.Now()

		err := rpctest.Call(t.Context(), cc)

		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, s.Attempts(""))
		assert.Equal(t, retrybudget.ReasonBudget, errorOf(t, err).Reason)
		assert.ErrorIs(t, err, retrybudget.ErrBudgetExhausted)
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, "shard 7 down", status.Convert(err).Message())
		assert.EqualError(t, err, "retrybudget: retry budget exhausted after 1 attempt: rpc error: code = Unavailable desc = shard 7 down")
		assert.Equal(t, []string{"failure Unavailable 1", "refuse Unavailable 1"}, ledger.read())
	})
}

func TestUnary_deadlineInALaterAttemptKeepsTheServersError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "shard 7 down"), rpctest.Hang())
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal),
			retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*time.Millisecond, 1)}))
		cc := s.Dial(t, r.DialOptions()...)
		why := errors.New("the page is late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 350*time.Millisecond, why)
		defer cancel()
		start := time.Now()

		err := rpctest.Call(ctx, cc)

		assert.Equal(t, 350*time.Millisecond, time.Since(start))
		assert.Equal(t, 2, s.Attempts(""))
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, retrybudget.ErrDeadline)
		assert.ErrorIs(t, err, why)
		for _, part := range []string{"Unavailable", "shard 7 down", "2 attempts"} {
			assert.ErrorContains(t, err, part)
			assert.Contains(t, status.Convert(err).Message(), part, "what a server in between would pass on")
		}
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDeadline}, journal.reasons())
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"}, ledger.read())
	})
}

func TestUnary_notRetryableErrorIsTheSameValue(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]rpctest.Step{
		"first attempt": {rpctest.Fail(codes.NotFound, "no such article")},
		"retry":         {rpctest.Unavailable(), rpctest.Fail(codes.NotFound, "no such article")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, steps...)
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithObserver(journal))
				var inner error
				cc := s.Dial(t, with(r, func(a attemptSeen) error {
					inner = a.send(a.ctx)
					return inner
				})...)

				err := rpctest.Call(t.Context(), cc)

				require.Equal(t, codes.NotFound, status.Code(err))
				assert.Same(t, inner, err)
				assert.Equal(t, len(steps), s.Attempts(""))
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonNotRetryable}, journal.reasons())
			})
		})
	}
}

func TestUnary_rawContextErrorOfAnInnerInterceptor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		err      error
		level    retrybudget.Idempotency
		attempts int
		code     codes.Code
	}{
		{"deadline on an idempotent method", context.DeadlineExceeded, retrybudget.Idempotent, 3, codes.DeadlineExceeded},
		{"wrapped deadline", fmt.Errorf("limiter: %w", context.DeadlineExceeded), retrybudget.Idempotent, 3, codes.DeadlineExceeded},
		{"deadline on an unknown method", context.DeadlineExceeded, retrybudget.IdempotencyUnknown, 1, codes.Unknown},
		{"cancel", context.Canceled, retrybudget.Idempotent, 1, codes.Unknown},
		{"plain error", errors.New("breaker open"), retrybudget.Idempotent, 1, codes.Unknown},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Idempotency: test.level}))
				attempts := 0
				cc := rpctest.New().Dial(t, with(r, func(attemptSeen) error {
					attempts++
					return test.err
				})...)

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, test.attempts, attempts)
				assert.ErrorIs(t, err, test.err)
				assert.Equal(t, test.code, status.Code(err))
				if test.attempts == 1 {
					assert.Equal(t, test.err, err, "returned as it is")
				}
			})
		})
	}
}

func TestUnary_historyHoldsTheFirstAndTheLastFifteen(t *testing.T) {
	t.Parallel()
	for sent, kept := range map[int][]int{
		29: series(1, 29),
		30: series(1, 30),
		31: append(series(1, 15), series(17, 31)...),
		40: append(series(1, 15), series(26, 40)...),
	} {
		t.Run(fmt.Sprint(sent), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: sent, Backoff: exact(time.Millisecond, 1)}))
				cc := s.Dial(t, r.DialOptions()...)

				own := errorOf(t, rpctest.Call(t.Context(), cc))

				var numbers []int
				for i, a := range own.History {
					numbers = append(numbers, a.Attempt)
					assert.Equal(t, codes.Unavailable, a.Code)
					assert.Equal(t, codes.Unavailable, status.Code(a.Err))
					if i > 0 {
						assert.Equal(t, time.Millisecond, a.Wait)
					}
				}
				assert.Equal(t, kept, numbers)
				assert.Equal(t, sent, own.Attempts)
			})
		})
	}
}

// series returns the numbers from first to last.
func series(first, last int) []int {
	var all []int
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}
