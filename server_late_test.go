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
)

// queue is a place outside the interceptors where requests wait. limit, if not 0,
// is how long a request may be in the server altogether.
func queue(wait, limit time.Duration) []grpc.ServerOption {
	enter := func(ctx context.Context) (context.Context, context.CancelFunc) {
		cancel := func() {}
		if limit > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
		}
		<-time.After(wait)
		return ctx, cancel
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			ctx, leave := enter(ctx)
			defer leave()
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			ctx, leave := enter(stream.Context())
			defer leave()
			return handler(srv, &streamWith{stream, ctx})
		}),
	}
}

// streamWith is a server stream with another context.
type streamWith struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWith) Context() context.Context { return s.ctx }

// A request that was in a queue until its time was up is not worked on.
func TestServer_noTimeLeft(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		wait, limit time.Duration
		runs        int
	}{
		{"time left", 99 * ms, 100 * ms, 1},
		{"none left", 100 * ms, 100 * ms, 0},
		{"long over", time.Hour, 100 * ms, 0},
		{"no deadline", time.Hour, 0, 1},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := serve(t, func(context.Context) error { return nil }, append(queue(tt.wait, tt.limit), guarded()...)...)
					var trailer metadata.MD

					err := kind.call(t.Context(), s.dial(t), grpc.Trailer(&trailer))

					assert.Equal(t, tt.runs, s.runs())
					assert.Empty(t, said(trailer))
					if tt.runs == 1 {
						assert.NoError(t, err)
						return
					}
					assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
					assert.Equal(t, "retrybudget: no time left when the request arrived", status.Convert(err).Message())
				})
			})
		}
	}
}

// The deadline counts, not the context's timer, which may fire late; a caller
// that has cancelled is the handler's business.
func TestServer_noTimeLeftByTheClock(t *testing.T) {
	t.Parallel()
	ran := false
	handler := func(context.Context, any) (any, error) {
		ran = true
		return "reply", nil
	}
	interceptor := retrybudget.UnaryServerInterceptor()

	reply, err := interceptor(passedDeadline{t.Context(), time.Now()}, nil, nil, handler)
	assert.Nil(t, reply)
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
	assert.False(t, ran)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	reply, err = interceptor(canceled, nil, nil, handler)
	require.NoError(t, err)
	assert.Equal(t, "reply", reply)
	assert.True(t, ran)
}
