package retrybudget_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// What the answer carries when the handler's own budget refused a retry, by the
// server part of a Config and by server options beside it.
func TestWithServerConfig_answers(t *testing.T) {
	t.Parallel()
	hint, stop := metadata.Pairs(exhaustedTrailer, "1"), metadata.Pairs("grpc-retry-pushback-ms", "-1")
	for _, tt := range []struct {
		name, config string
		code         codes.Code
		more         []retrybudget.ServerOption
		want         metadata.MD
	}{
		{"nothing", ``, codes.Unavailable, nil, hint},
		{"hint_codes", `server { hint_codes: [CODE_INTERNAL, CODE_ABORTED] }`, codes.Internal, nil, hint},
		{"hint_codes without it", `server { hint_codes: [CODE_INTERNAL, CODE_ABORTED] }`, codes.Unavailable, nil, metadata.MD{}},
		{"pushback_hint", `server { pushback_hint: true }`, codes.Unavailable, nil, stop},
		{"code outranks it", `server { hint_codes: CODE_INTERNAL }`, codes.Unavailable, []retrybudget.ServerOption{retrybudget.WithHintCodes(codes.Unavailable)}, hint},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					handler := func(ctx context.Context) error {
						require.ErrorIs(t, rpctest.Call(ctx, down), retrybudget.ErrBudgetExhausted)
						return status.Error(tt.code, "mine")
					}
					// The message comes last and is outranked all the same.
					options := append(slices.Clone(tt.more), retrybudget.WithServerConfig(configOf(t, tt.config)))

					trailer, err := trailerOf(t, kind.call, handler, options...)

					assert.Equal(t, tt.code, status.Code(err))
					assert.Equal(t, tt.want, trailer)
				})
			})
		}
	}
}

func TestWithServerConfig_attemptHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		handler := func(ctx context.Context) error {
			seen = append(seen, retrybudget.AttemptFromIncomingContext(ctx))
			return nil
		}
		option := retrybudget.WithServerConfig(configOf(t, `server { attempt_headers: ["X-One", "x-two"] }`))
		cc := serve(t, handler, guarded(option)...).dial(t)
		for _, header := range []string{"x-one", "x-two", attemptHeader, "x-three"} {
			require.NoError(t, rpctest.Call(metadata.AppendToOutgoingContext(t.Context(), header, "4"), cc))
		}
		assert.Equal(t, []int{5, 5, 5, 1}, seen)
	})
}
