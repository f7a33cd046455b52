package retrybudget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// What interceptors between the Retrier and the wire do to calls, and what they
// see.

func TestFinal_isNotRetriedAndUnwrapped(t *testing.T) {
	t.Parallel()
	refusal := status.Error(codes.Unavailable, "breaker open")
	wrapped := fmt.Errorf("outermost: %w", retrybudget.Final(refusal))
	always := func(retrybudget.CallInfo, error) retrybudget.Verdict { return retrybudget.Retry }
	tests := []struct {
		name     string
		returned error
		want     error
		opts     []retrybudget.Option
	}{
		{"by the table", retrybudget.Final(refusal), refusal, nil},
		{"by a code list", retrybudget.Final(refusal), refusal, []retrybudget.Option{
			retrybudget.WithPolicy(retrybudget.Policy{RetryableCodes: []codes.Code{codes.Unavailable}}),
		}},
		{"by a classifier", retrybudget.Final(refusal), refusal, []retrybudget.Option{retrybudget.WithClassifier(always)}},
		{"inside another error", wrapped, wrapped, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ledger := &budgetLedger{grants: -1}
				r := newRetrier(t, append(test.opts, ledger.option())...)
				attempts := 0
				cc := rpctest.New().Dial(t, with(r, func(attemptSeen) error {
					attempts++
					return test.returned
				})...)

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, 1, attempts)
				assert.Same(t, test.want, err)
				assert.ErrorIs(t, err, refusal)
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Empty(t, ledger.read())
			})
		})
	}
	assert.NoError(t, retrybudget.Final(nil))
}

func TestFinal_endsALaterAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refusal := status.Error(codes.Unavailable, "breaker open")
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		r := newRetrier(t)
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			if a.n == 2 {
				return retrybudget.Final(refusal)
			}
			return a.send(a.ctx)
		})...)

		assert.Same(t, refusal, rpctest.Call(t.Context(), cc))
		assert.Equal(t, 1, s.Attempts(""))
	})
}

func TestInner_panicSettlesTheRetryOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		at   int
		want []string
	}{
		{"first attempt", 1, nil},
		{"first retry", 2, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"}},
		{"second retry", 3, []string{
			"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed",
			"failure Unavailable 2", "grant Unavailable 2", "settle Unavailable 2 failed",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				ledger := &budgetLedger{grants: -1}
				r := newRetrier(t, ledger.option())
				cc := s.Dial(t, with(r, func(a attemptSeen) error {
					if a.n == test.at {
						panic("inner bug")
					}
					return a.send(a.ctx)
				})...)

				assert.PanicsWithValue(t, "inner bug", func() { _ = rpctest.Call(t.Context(), cc) })

				assert.Equal(t, test.want, ledger.read())
				assert.NoError(t, rpctest.CallMethod(t.Context(), cc, "/test.Service/Other"), "the Retrier goes on working")
			})
		})
	}
}

func TestInner_replyIsEmptyBeforeEachRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		r := newRetrier(t)
		var before []string
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			reply, ok := a.reply.(*wrapperspb.StringValue)
			require.True(t, ok)
			before = append(before, reply.GetValue())
			err := a.send(a.ctx)
			if err != nil {
				reply.Value = "half an answer"
			}
			return err
		})...)
		var reply wrapperspb.StringValue
		reply.Value = "the application's"

		require.NoError(t, cc.Invoke(t.Context(), rpctest.Method, wrapperspb.String("hello"), &reply))

		assert.Equal(t, []string{"the application's", ""}, before)
		assert.Equal(t, "hello", reply.GetValue())
	})
}

// A reply of a type that is not a proto message is reset if it can be, else left
// alone.
type resettable struct{ content string }

func (r *resettable) Reset() { r.content = "" }

func TestInner_replyThatIsNoProtoMessage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply any
		dirty func(reply any) any
	}{
		{"with Reset", &resettable{}, func(reply any) any {
			r, ok := reply.(*resettable)
			require.True(t, ok)
			was := r.content
			r.content = "half an answer"
			return was
		}},
		{"nil", nil, func(any) any { return "" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				invoker := func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
					attempts++
					assert.Empty(t, test.dirty(reply), "attempt %d", attempts)
					return status.Error(codes.Unavailable, "down")
				}

				err := newRetrier(t).UnaryClientInterceptor()(t.Context(), rpctest.Method, nil, test.reply, nil, invoker)

				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Equal(t, 3, attempts)
			})
		})
	}
}

func TestInner_attemptFromContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		r := newRetrier(t)
		ctx := t.Context()
		var seen []int
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			seen = append(seen, retrybudget.AttemptFromContext(a.ctx))
			if a.n == 1 {
				assert.Equal(t, ctx, a.ctx, "a first attempt gets no context value")
			}
			return a.send(a.ctx)
		})...)

		require.NoError(t, rpctest.Call(ctx, cc))

		assert.Equal(t, []int{1, 2, 3}, seen)
		assert.Equal(t, 1, retrybudget.AttemptFromContext(ctx))
	})
}

// Interceptors are plain functions; a test or a proxy may call one without a
// connection.
func TestUnary_withoutAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		journal := &callJournal{}
		r, err := retrybudget.New(
			retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 2})),
			retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*time.Millisecond, 2)}),
			retrybudget.WithObserver(journal),
		)
		require.NoError(t, err)
		fail := []error{status.Error(codes.Unavailable, "down"), status.Error(codes.Unavailable, "down"), nil}
		invoker := func(_ context.Context, _ string, _, _ any, cc *grpc.ClientConn, _ ...grpc.CallOption) error {
			assert.Nil(t, cc)
			next := fail[0]
			fail = fail[1:]
			return next
		}
		start := time.Now()

		require.NoError(t, r.UnaryClientInterceptor()(t.Context(), rpctest.Method, nil, nil, nil, invoker))

		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		require.Len(t, journal.retries, 2)
		assert.Empty(t, journal.retries[0].Call.Target)
		assert.Equal(t, []retrybudget.BudgetInfo{{Target: "", Method: rpctest.Method, Tokens: 0, Capacity: 20}}, slices.Collect(r.Budgets()))
	})
}

func TestUnary_cancelWithoutAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(time.Hour, 1)}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Millisecond, cancel)
		start := time.Now()
		down := status.Error(codes.Unavailable, "down")

		err := r.UnaryClientInterceptor()(ctx, rpctest.Method, nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return down })

		assert.Equal(t, 30*time.Millisecond, time.Since(start))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, down)
	})
}

// An error of the application's own type keeps its identity through the
// library's.
func TestUnary_errorTypesStayVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t)
		own := &statusError{status.New(codes.Unavailable, "mine")}
		cc := rpctest.New().Dial(t, with(r, func(attemptSeen) error { return own })...)

		err := rpctest.Call(t.Context(), cc)

		assert.ErrorIs(t, err, retrybudget.ErrAttemptsExhausted)
		found, ok := errors.AsType[*statusError](err)
		require.True(t, ok)
		assert.Same(t, own, found)
	})
}

type statusError struct{ st *status.Status }

func (e *statusError) Error() string              { return "custom: " + e.st.Message() }
func (e *statusError) GRPCStatus() *status.Status { return e.st }
