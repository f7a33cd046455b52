package retrybudget_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// nativePolicy is a service config under which grpc-go itself retries.
const nativePolicy = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,
	"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

func TestCallOptions_applyToTheirCallAlone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		opt     grpc.CallOption
		step    rpctest.Step
		with    int // attempts of the call with the option
		without int // of the call before and of the one after
	}{
		{"CallMaxAttempts 5", retrybudget.CallMaxAttempts(5), rpctest.Unavailable(), 5, 3},
		{"CallMaxAttempts 0", retrybudget.CallMaxAttempts(0), rpctest.Unavailable(), 3, 3},
		{"CallMaxAttempts 1", retrybudget.CallMaxAttempts(1), rpctest.Unavailable(), 1, 3},
		{"CallDisabled", retrybudget.CallDisabled(), rpctest.Unavailable(), 1, 3},
		{"CallRetryableCodes adds", retrybudget.CallRetryableCodes(codes.NotFound), rpctest.Fail(codes.NotFound, ""), 3, 1},
		{"CallRetryableCodes replaces", retrybudget.CallRetryableCodes(codes.NotFound), rpctest.Unavailable(), 1, 3},
		{"CallIdempotency Idempotent", retrybudget.CallIdempotency(retrybudget.Idempotent), rpctest.Fail(codes.Aborted, ""), 3, 1},
		{"CallIdempotency NonIdempotent", retrybudget.CallIdempotency(retrybudget.NonIdempotent), rpctest.Unavailable(), 1, 3},
		{"CallIdempotency Unknown", retrybudget.CallIdempotency(retrybudget.IdempotencyUnknown), rpctest.Unavailable(), 3, 3},
		{"CallIdempotencyKey", retrybudget.CallIdempotencyKey("key"), rpctest.Fail(codes.Aborted, ""), 3, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.step)
				cc := s.Dial(t, newRetrier(t).DialOptions()...)

				require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "before"), cc))
				require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "with"), cc, test.opt))
				require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "after"), cc))

				assert.Equal(t, []int{test.without, test.with, test.without}, []int{s.Attempts("before"), s.Attempts("with"), s.Attempts("after")})
			})
		})
	}
}

func TestCallOptions_backoff(t *testing.T) {
	t.Parallel()
	ms := func(_ context.Context, retry uint) time.Duration { return time.Duration(retry) * time.Millisecond }
	tests := []struct {
		name string
		opt  grpc.CallOption
		want []time.Duration
	}{
		{"CallBackoff", retrybudget.CallBackoff(exact(7*time.Millisecond, 2)), []time.Duration{7 * time.Millisecond, 14 * time.Millisecond}},
		{"CallBackoffFunc", retrybudget.CallBackoffFunc(ms), []time.Duration{time.Millisecond, 2 * time.Millisecond}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(time.Second, 1)}))
				cc := s.Dial(t, r.DialOptions()...)

				require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "with"), cc, test.opt))
				require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "after"), cc))

				assert.Equal(t, test.want, s.Gaps("with"))
				assert.Equal(t, []time.Duration{time.Second, time.Second}, s.Gaps("after"))
			})
		})
	}
}

func TestCallOptions_theLastOneWins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := s.Dial(t, newRetrier(t).DialOptions()...)

		require.Error(t, rpctest.Call(t.Context(), cc, retrybudget.CallMaxAttempts(5), retrybudget.CallMaxAttempts(2)))

		assert.Equal(t, 2, s.Attempts(""))
	})
}

func TestCallOptions_callersSliceIsOnlyRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		var header metadata.MD
		own := retrybudget.CallMaxAttempts(2)
		given := make([]grpc.CallOption, 0, 16)
		given = append(given, own, grpc.Header(&header), grpc.StaticMethod(), grpc.OnFinish(func(error) {}), grpc.WaitForReady(true))
		before := slices.Clone(given[:cap(given)])
		var passed [][]grpc.CallOption
		cc := s.Dial(t, with(newRetrier(t), func(a attemptSeen) error {
			passed = append(passed, a.opts)
			return a.send(a.ctx)
		})...)

		require.NoError(t, rpctest.Call(t.Context(), cc, given...))

		for i, o := range given[:cap(given)] {
			if i == 3 {
				continue // a function, which cannot be compared
			}
			assert.Equal(t, before[i], o, "option %d", i)
		}
		require.Len(t, passed, 2)
		for _, opts := range passed {
			assert.NotContains(t, opts, own, "read by this library alone")
			assert.Contains(t, opts, grpc.StaticMethod())
			assert.Contains(t, opts, grpc.Header(&header))
			assert.Contains(t, opts, grpc.WaitForReady(true))
			for _, o := range opts {
				assert.IsNotType(t, grpc.OnFinishCallOption{}, o, "the call's, not an attempt's")
			}
		}
	})
}

func TestTargets_holdTheReturnedAttemptsValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		steps           []rpctest.Step
		code            codes.Code
		header, trailer metadata.MD
	}{
		{
			"OK after a failure that had sent headers",
			[]rpctest.Step{
				rpctest.WithHeader(rpctest.WithTrailer(rpctest.Unavailable(), "y-id", "1"), "x-id", "1", "x-once", "1"),
				rpctest.WithHeader(rpctest.WithTrailer(rpctest.OK(), "y-id", "2"), "x-id", "2"),
			},
			codes.OK, metadata.Pairs("x-id", "2"), metadata.Pairs("y-id", "2"),
		},
		{
			"the last failure",
			[]rpctest.Step{
				rpctest.WithHeader(rpctest.WithTrailer(rpctest.Unavailable(), "y-once", "1"), "x-once", "1"),
				rpctest.WithTrailer(rpctest.Unavailable(), "y-id", "2"),
			},
			codes.Unavailable, nil, metadata.Pairs("y-id", "2"),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.steps...)
				cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 2})).DialOptions()...)
				var header, trailer metadata.MD
				var from peer.Peer

				err := rpctest.Call(t.Context(), cc, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&from))

				assert.Equal(t, test.code, status.Code(err))
				assert.Equal(t, 2, s.Attempts(""))
				header.Delete("content-type")
				trailer.Delete("content-type")
				assert.Equal(t, test.header.Len(), header.Len(), "%v", header)
				assert.Equal(t, test.header.Get("x-id"), header.Get("x-id"))
				assert.Equal(t, test.trailer, trailer)
				assert.NotNil(t, from.Addr)
			})
		})
	}
}

// An attempt that never got as far as a server has no header, trailer or peer,
// and an earlier one's must not stand in for them.
func TestTargets_areEmptyAfterALastAttemptThatWasNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.WithHeader(rpctest.WithTrailer(rpctest.Unavailable(), "y-id", "1"), "x-id", "1"))
		cc := s.Dial(t, with(newRetrier(t), func(a attemptSeen) error {
			if a.n > 1 {
				return status.Error(codes.Unavailable, "breaker open")
			}
			return a.send(a.ctx)
		})...)
		var header, trailer metadata.MD
		var from peer.Peer

		require.Error(t, rpctest.Call(t.Context(), cc, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&from)))

		assert.Empty(t, header)
		assert.Empty(t, trailer)
		assert.Nil(t, from.Addr)
	})
}

func TestOnFinish_runsOncePerCallWithTheFinalError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		step []rpctest.Step
		opts []grpc.CallOption
		code codes.Code
	}{
		{"OK at once", []rpctest.Step{rpctest.OK()}, nil, codes.OK},
		{"OK after a retry", []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}, nil, codes.OK},
		{"attempts exhausted", []rpctest.Step{rpctest.Unavailable()}, nil, codes.Unavailable},
		{"not retryable", []rpctest.Step{rpctest.Fail(codes.NotFound, "")}, nil, codes.NotFound},
		{"disabled", []rpctest.Step{rpctest.Unavailable()}, []grpc.CallOption{retrybudget.CallDisabled()}, codes.Unavailable},
		{"invalid call option", []rpctest.Step{rpctest.OK()}, []grpc.CallOption{retrybudget.CallMaxAttempts(-1)}, codes.Internal},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.step...)
				cc := s.Dial(t, newRetrier(t).DialOptions()...)
				var first, second []error

				err := rpctest.Call(t.Context(), cc, append(test.opts,
					grpc.OnFinish(func(err error) { first = append(first, err) }),
					grpc.OnFinish(func(err error) { second = append(second, err) }))...)

				assert.Equal(t, test.code, status.Code(err))
				assert.Equal(t, []error{err}, first)
				assert.Equal(t, []error{err}, second)
			})
		})
	}
}

// With nothing failing, a call looks the same with the library as without.
func TestUnary_callWithoutFailureIsUnchanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.WithHeader(rpctest.WithTrailer(rpctest.OK(), "y-id", "1"), "x-id", "1"))
		l := s.Start(t)
		type result struct {
			header, trailer, sent metadata.MD
			peer                  string
			left                  time.Duration
		}
		var results []result
		for i, opts := range [][]grpc.DialOption{nil, newRetrier(t).DialOptions()} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ctx = rpctest.WithCallID(ctx, strconv.Itoa(i))
			var got result
			var from peer.Peer
			require.NoError(t, rpctest.Call(ctx, l.Dial(t, opts...), grpc.Header(&got.header), grpc.Trailer(&got.trailer), grpc.Peer(&from)))
			cancel()
			entry := s.Entries(strconv.Itoa(i))[0]
			entry.MD.Delete(rpctest.CallID)
			got.sent, got.peer, got.left = entry.MD, from.Addr.String(), entry.Left
			results = append(results, got)
		}
		assert.Equal(t, results[0], results[1])
	})
}
