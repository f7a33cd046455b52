package retrybudget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// An invoker that is no ClientConn (a channel within the process, a mock) finds
// the targets for trailers by their type, as grpc-go documents it for
// interceptors. The server's guidance must arrive that way too.
func TestInMemory_trailersOfAnInvokerThatIsNoConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var trailers []metadata.MD
		attempts := 0
		invoker := func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
			attempts++
			answer := metadata.Pairs("grpc-retry-pushback-ms", []string{"700", "-1"}[min(attempts, 2)-1])
			for _, o := range opts {
				if target, ok := o.(grpc.TrailerCallOption); ok {
					*target.TrailerAddr = answer
				}
			}
			trailers = append(trailers, answer)
			return status.Error(codes.Unavailable, "")
		}
		var mine metadata.MD
		start := time.Now()

		err := newRetrier(t).UnaryClientInterceptor()(t.Context(), rpctest.Method, nil, nil, nil, invoker, grpc.Trailer(&mine))

		require.ErrorIs(t, err, retrybudget.ErrPushback)
		assert.Equal(t, 2, attempts)
		assert.Equal(t, 700*time.Millisecond, time.Since(start))
		assert.Equal(t, trailers[1], mine, "the caller's own target has the last attempt's")
	})
}
