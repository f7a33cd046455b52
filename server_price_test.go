package retrybudget_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// A caller with this library pays four tokens for a retry of a hinted failure,
// and its observer sees why.
func TestServerHint_callerPaysFourfold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		initial  int
		hint     bool
		attempts int
		left     int64
	}{
		{"without a hint", 10, false, 3, 8},
		{"hinted", 10, true, 3, 2},
		{"hinted, tokens for one retry", 7, true, 2, 3},
		{"hinted, exactly for one", 4, true, 2, 0},
		{"hinted, tokens for none", 3, true, 1, 3},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					s := serve(t, func(ctx context.Context) error {
						if tt.hint {
							return rpctest.Call(ctx, down)
						}
						return unavailable("mine")
					}, guarded()...)
					bucket, option := bucketed(t, retrybudget.TokenBucketConfig{Initial: tt.initial})
					journal := &callJournal{}
					cc := s.dial(t, newRetrier(t, option, retrybudget.WithObserver(journal)).DialOptions()...)

					err := kind.call(t.Context(), cc)

					require.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, tt.attempts, s.attempts())
					assert.Equal(t, tt.left, tokensIn(bucket)/1000)
					for _, a := range errorOf(t, err).History {
						assert.Equal(t, tt.hint, a.Exhausted, "attempt %d", a.Attempt)
					}
					require.Len(t, journal.retries, tt.attempts-1)
					for _, e := range journal.retries {
						assert.Equal(t, tt.hint, e.Cause.Exhausted, "retry %d", e.Call.Attempt)
					}
					require.Len(t, journal.refusals, 1)
					assert.Equal(t, tt.hint, journal.refusals[0].Cause.Exhausted)
					require.Len(t, journal.ended, 1)
					assert.Equal(t, tt.hint, journal.ended[0].Last.Exhausted)
				})
			})
		}
	}
}

// An AdaptiveBudget needs one token for it and overdraws; a veto in place of the
// hint costs nothing and ends the call.
func TestServerHint_callerWithAnAdaptiveBudget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		server   []retrybudget.ServerOption
		attempts int
		level    int64
		reason   retrybudget.Reason
	}{
		{"hint", nil, 2, -2, retrybudget.ReasonBudget},
		{"pushback", []retrybudget.ServerOption{retrybudget.WithPushbackHint()}, 1, 2, retrybudget.ReasonPushback},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					s := serve(t, func(ctx context.Context) error { return rpctest.Call(ctx, down) }, guarded(tt.server...)...)
					b := newAdaptive(t, retrybudget.AdaptiveConfig{})
					journal := &callJournal{}
					cc := s.dial(t, newRetrier(t, retrybudget.WithBudget(retrybudget.Shared(b)), retrybudget.WithObserver(journal)).DialOptions()...)

					require.Error(t, kind.call(t.Context(), cc))

					assert.Equal(t, tt.attempts, s.attempts())
					assert.Equal(t, tt.level, microsIn(b)/1e6)
					assert.Equal(t, []retrybudget.Reason{tt.reason}, journal.reasons())
				})
			})
		}
	}
}

// A retry that finds the service behind well again ends the matter: the caller
// sees OK, and nothing is hinted any more.
func TestServerHint_endsWithTheTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := downstream(t, []rpctest.Step{rpctest.Unavailable(), rpctest.OK()})
		s := serve(t, func(ctx context.Context) error { return rpctest.Call(ctx, down) }, guarded()...)
		bucket, option := bucketed(t, retrybudget.TokenBucketConfig{Initial: 10})
		journal := &callJournal{}
		cc := s.dial(t, newRetrier(t, option, retrybudget.WithObserver(journal)).DialOptions()...)

		require.NoError(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, int64(6000), tokensIn(bucket))
		require.Len(t, journal.ended, 1)
		assert.False(t, journal.ended[0].Last.Exhausted)
		assert.True(t, journal.ended[0].Earlier[0].Exhausted)
	})
}
