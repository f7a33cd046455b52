package loopback_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget/examples/internal/loopback"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// Attempts that the server's other interceptors refuse have arrived all the same.
func TestServe_countsWhatIsRefused(t *testing.T) {
	t.Parallel()
	var n loopback.Counter
	refuse := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		return nil, status.Error(codes.ResourceExhausted, "no")
	}
	server, address, err := loopback.Serve(quickstartv1.UnimplementedInventoryServiceServer{}, &n, grpc.ChainUnaryInterceptor(refuse))
	require.NoError(t, err)
	defer server.Stop()
	conn, err := loopback.Connect(t.Context(), address)
	require.NoError(t, err)
	defer conn.Close()
	client := quickstartv1.NewInventoryServiceClient(conn)

	ask := func() {
		_, err := client.GetStock(t.Context(), &quickstartv1.GetStockRequest{})
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
	}
	assert.Zero(t, n.Total())
	ask()
	ask()
	later := time.Now()
	ask()
	assert.Equal(t, 3, n.Total())
	assert.Len(t, n.Since(later), 1)
	assert.GreaterOrEqual(t, n.Since(later)[0], time.Duration(0))
}

func TestConnect_endsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := loopback.Connect(ctx, "127.0.0.1:0")
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "127.0.0.1:0")
}
