package retrybudget_test

import (
	"context"
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

// A gateway that passes the trailers of the service behind it on to its caller, as
// proxies do, says the same thing twice: once by itself and once through the
// interceptor. The hint still counts, and two vetoes are still a veto.
func TestServerHint_handlerPassesTrailersOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		behind   rpctest.Step
		opts     []retrybudget.ServerOption
		attempts int
		left     int64
	}{
		{"hint", withHint(rpctest.Unavailable()), nil, 3, 2},
		{"veto", rpctest.Pushback(rpctest.Unavailable(), "-1"), []retrybudget.ServerOption{retrybudget.WithPushbackHint()}, 1, 10},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := downstream(t, []rpctest.Step{tt.behind})
					s := serve(t, func(ctx context.Context) error {
						var trailer metadata.MD
						err := rpctest.Call(ctx, down, grpc.Trailer(&trailer))
						assert.NoError(t, grpc.SetTrailer(ctx, said(trailer)))
						return err
					}, guarded(tt.opts...)...)
					bucket, option := bucketed(t, retrybudget.TokenBucketConfig{Initial: 10})

					err := kind.call(t.Context(), s.dial(t, newRetrier(t, option).DialOptions()...))

					require.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, tt.attempts, s.attempts())
					assert.Equal(t, tt.left, tokensIn(bucket)/1000)
				})
			})
		}
	}
}
