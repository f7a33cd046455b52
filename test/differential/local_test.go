package differential_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

// token adds metadata to each attempt, as an access token would be. From attempt
// expired on, if not 0, there is none to be had.
type token struct{ expired int }

// GetRequestMetadata returns the token.
func (k token) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if k.expired > 0 && retrybudget.AttemptFromContext(ctx) >= k.expired {
		return nil, status.Error(codes.PermissionDenied, "the token has expired")
	}
	return map[string]string{"authorization": "Bearer t"}, nil
}

// RequireTransportSecurity allows the tests' plain connections.
func (token) RequireTransportSecurity() bool { return false }

// An attempt that fails before anything is sent has no header, trailer or peer
// to overwrite those of the attempt before it.
func TestInterceptor_localFailureAfterAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := func(attempt int) differCase {
			return differCase{text: "hello", opts: []grpc.CallOption{grpc.PerRPCCredentials(token{expired: attempt})}}
		}
		r, err := retrybudget.New(
			retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(0)}),
			retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 20})),
		)
		require.NoError(t, err)
		want, none := observe(t, at(1), nil)
		require.Equal(t, codes.PermissionDenied, want.Code)
		require.Empty(t, none)

		got, attempts := observe(t, at(2), steps(rich(codes.Unavailable, "one")), r.DialOptions()...)

		requireSameStatus(t, want, got)
		assert.Equal(t, want.Text, got.Text)
		assert.Len(t, attempts, 1)
	})
}

// The cases run in memory, where every peer has the same name. This is TCP.
func TestInterceptor_peerOverTCP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	attempts := 0
	srv := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		attempts++ // one call at a time
		if len(metadata.ValueFromIncomingContext(ctx, attemptHeader)) == 0 {
			return nil, status.Error(codes.Unavailable, "first attempts fail")
		}
		return handler(ctx, req)
	}))
	healthgrpc.RegisterHealthServer(srv, health.NewServer())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	r, err := retrybudget.New(retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 1})))
	require.NoError(t, err)
	cc, err := grpc.NewClient(l.Addr().String(), append(r.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	defer func() { _ = cc.Close() }()

	var p peer.Peer
	_, err = healthgrpc.NewHealthClient(cc).Check(t.Context(), &healthgrpc.HealthCheckRequest{}, grpc.Peer(&p))

	require.NoError(t, err)
	require.NotNil(t, p.Addr)
	assert.Equal(t, l.Addr().String(), p.Addr.String())
	srv.Stop()
	<-done
	assert.Equal(t, 2, attempts)
}
