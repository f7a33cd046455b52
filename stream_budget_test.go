package retrybudget_test

import (
	"context"
	"fmt"
	"io"
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
)

// What a budget and an observer are told of streams.

func TestStreamBudget_told(t *testing.T) {
	t.Parallel()
	read := func(cs grpc.ClientStream, _ func()) error {
		_, err := recvAll(cs)
		return err
	}
	waiting := []retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(time.Hour)})}
	notFound := failing(status.Error(codes.NotFound, "x"))
	for _, test := range []struct {
		name     string
		handlers []func(grpc.ServerStream) error
		opts     []retrybudget.Option
		grants   int
		use      func(cs grpc.ClientStream, cancel func()) error
		told     []string
		reason   retrybudget.Reason
		retries  int
	}{
		{"OK", []func(grpc.ServerStream) error{sending(nil, "m1", "m2")}, nil, -1, read, []string{"success"}, retrybudget.NoReason, 0},
		{"OK without a message", []func(grpc.ServerStream) error{failing(nil)}, nil, -1, read, []string{"success"}, retrybudget.NoReason, 0},
		{"not retryable", []func(grpc.ServerStream) error{notFound}, nil, -1, read, nil, retrybudget.ReasonNotRetryable, 0},
		{
			"an answer that counts as success",
			[]func(grpc.ServerStream) error{notFound},
			[]retrybudget.Option{retrybudget.WithSuccess(func(retrybudget.CallInfo, error) bool { return true })},
			-1, read,
			[]string{"success"},
			retrybudget.ReasonNotRetryable, 0,
		},
		{
			"OK after a retry",
			[]func(grpc.ServerStream) error{failing(unavailable("x")), sending(nil, "m1", "m2")},
			nil, -1, read,
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 succeeded"},
			retrybudget.NoReason, 1,
		},
		{
			"a retry that fails after its first message",
			[]func(grpc.ServerStream) error{failing(unavailable("x")), sending(unavailable("x"), "m1")},
			nil, -1, read,
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 succeeded", "failure Unavailable 2"},
			retrybudget.ReasonCommitted, 1,
		},
		{
			"a retry that is answered",
			[]func(grpc.ServerStream) error{failing(unavailable("x")), notFound},
			nil, -1, read,
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 answered"},
			retrybudget.ReasonNotRetryable, 1,
		},
		{
			"exhausted",
			[]func(grpc.ServerStream) error{failing(unavailable("x"))},
			[]retrybudget.Option{atOnce(2)},
			-1, read,
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed", "failure Unavailable 2"},
			retrybudget.ReasonMaxAttempts, 1,
		},
		{
			"refused",
			[]func(grpc.ServerStream) error{failing(unavailable("x"))},
			nil, 0, read,
			[]string{"failure Unavailable 1", "refuse Unavailable 1"},
			retrybudget.ReasonBudget, 0,
		},
		{
			"attempt timeout",
			[]func(grpc.ServerStream) error{hanging},
			[]retrybudget.Option{perTry(2)},
			-1, read,
			[]string{"failure DeadlineExceeded 1", "grant DeadlineExceeded 1", "settle DeadlineExceeded 1 failed", "failure DeadlineExceeded 2"},
			retrybudget.ReasonMaxAttempts, 1,
		},
		{
			"veto",
			[]func(grpc.ServerStream) error{withTrailer(failing(unavailable("x")), "grpc-retry-pushback-ms", "-1")},
			nil, -1, read,
			[]string{"failure Unavailable 1 veto"},
			retrybudget.ReasonPushback, 0,
		},
		{
			"cancelled in the wait",
			[]func(grpc.ServerStream) error{failing(unavailable("x"))},
			waiting, -1,
			func(cs grpc.ClientStream, cancel func()) error {
				time.AfterFunc(time.Second, cancel)
				return read(cs, nil)
			},
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 abandoned"},
			retrybudget.ReasonCanceled, 0,
		},
		{
			"cancelled in a retry",
			[]func(grpc.ServerStream) error{failing(unavailable("x")), hanging},
			nil, -1,
			func(cs grpc.ClientStream, cancel func()) error {
				time.AfterFunc(time.Second, cancel)
				return read(cs, nil)
			},
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"},
			retrybudget.ReasonCanceled, 1,
		},
		{
			"cancelled without a message",
			[]func(grpc.ServerStream) error{hanging},
			nil, -1,
			func(cs grpc.ClientStream, cancel func()) error { cancel(); return read(cs, nil) },
			nil, retrybudget.ReasonCanceled, 0,
		},
		{
			"cancelled after a message",
			[]func(grpc.ServerStream) error{func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) }},
			nil, -1,
			func(cs grpc.ClientStream, cancel func()) error {
				_, err := recvOne(cs)
				cancel()
				synctest.Wait() // the application does not even ask
				return err
			},
			[]string{"success"},
			retrybudget.ReasonCanceled, 0,
		},
		{
			"deadline after a message",
			[]func(grpc.ServerStream) error{func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) }},
			[]retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{Timeout: time.Minute})},
			-1, read,
			nil, retrybudget.ReasonDeadline, 0,
		},
		{
			"cancelled after a message of a retry",
			[]func(grpc.ServerStream) error{failing(unavailable("x")), func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) }},
			nil, -1,
			func(cs grpc.ClientStream, cancel func()) error {
				_, err := recvOne(cs)
				cancel()
				synctest.Wait()
				return err
			},
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 succeeded"},
			retrybudget.ReasonCanceled, 1,
		},
		{
			"overflow in a retry settles at the end",
			[]func(grpc.ServerStream) error{reading(1, failing(unavailable("x"))), reading(2, failing(unavailable("x")))},
			[]retrybudget.Option{retrybudget.WithReplayLimits(60, 1000)},
			-1,
			func(cs grpc.ClientStream, _ func()) error {
				synctest.Wait()
				for range 3 {
					_ = cs.SendMsg(wrapperspb.String("12345678901234567890"))
					synctest.Wait()
				}
				return read(cs, nil)
			},
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed", "failure Unavailable 2"},
			retrybudget.ReasonCommitted, 1,
		},
		{
			"headers in a retry settle nothing",
			[]func(grpc.ServerStream) error{failing(unavailable("x")), withHeader(later(time.Second, failing(unavailable("x"))), "k", "v")},
			nil, -1,
			func(cs grpc.ClientStream, _ func()) error { _, _ = cs.Header(); return read(cs, nil) },
			[]string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed", "failure Unavailable 2"},
			retrybudget.ReasonCommitted, 1,
		},
		{
			"disabled",
			[]func(grpc.ServerStream) error{failing(unavailable("x"))},
			[]retrybudget.Option{retrybudget.WithMode(retrybudget.Off)},
			-1, read,
			nil, retrybudget.ReasonDisabled, 0,
		},
		{
			"disabled OK",
			[]func(grpc.ServerStream) error{sending(nil, "m")},
			[]retrybudget.Option{retrybudget.WithMode(retrybudget.Off)},
			-1, read,
			[]string{"success"},
			retrybudget.NoReason, 0,
		},
		{
			"Observe",
			[]func(grpc.ServerStream) error{failing(unavailable("x")), sending(nil, "m")},
			[]retrybudget.Option{retrybudget.WithMode(retrybudget.Observe)},
			0, read,
			[]string{"failure Unavailable 1", "refuse Unavailable 1"},
			retrybudget.NoReason, 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handlers...)
				ledger, journal := &budgetLedger{grants: test.grants}, &callJournal{}
				r := newRetrier(t, append(append([]retrybudget.Option{}, test.opts...), ledger.option(), retrybudget.WithObserver(journal))...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cs := open(ctx, t, s.Dial(t, r.DialOptions()...), bidiStream)
				sendOne(t, cs, "a")

				_ = test.use(cs, cancel)
				synctest.Wait()

				assert.Equal(t, test.told, ledger.read())
				assert.Equal(t, []retrybudget.Reason{test.reason}, journal.reasons())
				assert.Len(t, journal.retries, test.retries)
				assert.Equal(t, 1+test.retries, journal.ended[0].Call.Attempt)
				assert.Len(t, journal.ended[0].Earlier, test.retries)
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// One deposit for each call whose first attempt succeeded: not for each message,
// attempt or interceptor.
func TestStreamBudget_oneDepositForEachCall(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint("twice on the connection ", twice), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, sending(nil, "1", "2", "3", "4", "5"))
				b, budget := bucketed(t, retrybudget.TokenBucketConfig{Capacity: 100, Initial: 41})
				r := newRetrier(t, budget, atOnce(3))
				options := r.DialOptions()
				if twice {
					options = append(options, r.DialOptions()...)
				}
				cc := s.Dial(t, options...)
				ten := func() {
					for i := range 10 {
						cs := open(withCallID(t, fmt.Sprint(s.AttemptsOf(streamMethod), "/", i)), t, cc, serverStream)
						sendAll(t, cs, "a")
						got, err := recvAll(cs)
						assert.Equal(t, io.EOF, err)
						assert.Len(t, got, 5)
					}
				}

				ten()
				assert.Equal(t, int64(42_000), tokensIn(b))

				s.Streams(streamMethod, failing(unavailable("x")), sending(nil, "1", "2", "3", "4", "5"))
				ten()
				assert.Equal(t, int64(32_000), tokensIn(b))
			})
		})
	}
}

// The budget is wired in by default.
func TestStreamBudget_boundsRetries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		budget   []retrybudget.Option
		attempts int
	}{
		{"default", nil, 1000},
		{"bucket of ten", []retrybudget.Option{retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10}))}, 1010},
		{"throttle of ten", []retrybudget.Option{retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1}))}, 1003},
	} {
		for _, perCall := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, " call option ", perCall), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, failing(unavailable("x")))
					policy, call := atOnce(4), []grpc.CallOption(nil)
					if perCall {
						policy, call = atOnce(2), []grpc.CallOption{retrybudget.CallMaxAttempts(4)}
					}
					r, err := retrybudget.New(append([]retrybudget.Option{policy}, test.budget...)...)
					require.NoError(t, err)
					cc := s.Dial(t, r.DialOptions()...)
					for range 1000 {
						cs := open(t.Context(), t, cc, serverStream, call...)
						sendAll(t, cs, "a")
						_, err := recvOne(cs)
						require.Equal(t, codes.Unavailable, status.Code(err))
					}
					assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod))
				})
			})
		}
	}
}

// Off also stops the retries of streams under way.
func TestStreamBudget_switchedOffInTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")))
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal),
			retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(time.Second)}))
		time.AfterFunc(500*ms, func() { assert.NoError(t, r.SetMode(retrybudget.Off)) })
		cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), bidiStream)
		sendAll(t, cs, "a")
		_, err := recvOne(cs)
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, 1, s.AttemptsOf(streamMethod))
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDisabled}, journal.reasons())
		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 abandoned"}, ledger.read())
	})
}
