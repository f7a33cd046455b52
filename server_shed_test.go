package retrybudget_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// The interceptors of one server that have the same option count together.
func TestRetryShedding_unaryAndStreamCountTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full := retrybudget.WithRetryShedding(func(context.Context) bool { return true })
		cc := serve(t, func(context.Context) error { return nil }, guarded(full)...).dial(t)
		for range 9 {
			require.NoError(t, rpctest.Call(t.Context(), cc))
		}
		retry := metadata.AppendToOutgoingContext(t.Context(), attemptHeader, "1")
		for _, want := range [][]string{nil, {"-1"}} { // 1 of 10, 2 of 11
			var trailer metadata.MD
			err := callStream(retry, cc, grpc.Trailer(&trailer))
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, want, trailer.Get(pushbackTrailer))
		}
	})
}

// On a real server, for both kinds of handler: a caller with this library stops
// when it is told to.
func TestRetryShedding_callerWithThisLibrary(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		for name, tt := range map[string]struct {
			others   int // first attempts of others before
			attempts int
			reason   retrybudget.Reason
		}{
			"mostly retries": {0, 2, retrybudget.ReasonPushback},
			"few retries":    {50, 3, retrybudget.ReasonMaxAttempts},
		} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var full atomic.Bool
					s := serve(t, func(context.Context) error {
						if full.Load() {
							return unavailable("full") // the limiter behind
						}
						return nil
					}, guarded(retrybudget.WithRetryShedding(func(context.Context) bool { return full.Load() }))...)
					journal := &callJournal{}
					cc := s.dial(t, newRetrier(t, retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(ms, 1)})).DialOptions()...)
					for range tt.others {
						require.NoError(t, kind.call(t.Context(), cc))
					}
					full.Store(true)

					err := kind.call(t.Context(), cc)

					assert.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, tt.others+tt.attempts, s.attempts())
					assert.Equal(t, tt.others+1, s.runs(), "retries did not reach the handler")
					assert.Equal(t, tt.reason, errorOf(t, err).Reason)
				})
			})
		}
	}
}
