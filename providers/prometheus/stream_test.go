package prometheus_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget/internal/rpctest"
)

var both = grpc.StreamDesc{ClientStreams: true, ServerStreams: true}

// upload opens a stream, sends a message and leaves it open. The function that it
// returns cancels the stream and waits for its end.
func upload(t *testing.T, cc *grpc.ClientConn) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := cc.NewStream(ctx, &both, "/test.Service/Upload")
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(wrapperspb.String("some bytes")))
	return func() {
		cancel()
		require.Error(t, stream.RecvMsg(new(wrapperspb.StringValue)))
	}
}

// A stream is a call, whose end counts; its retry is one of the first attempt, and
// once it gave something to the application, none follows.
func TestMetrics_streams(t *testing.T) {
	t.Parallel()
	unavailable := status.Error(codes.Unavailable, "")
	answer := func(stream grpc.ServerStream) error { return stream.SendMsg(wrapperspb.String("a")) }
	for _, tt := range []struct {
		name     string
		handlers []func(grpc.ServerStream) error
		calls    counts
		tries    counts
		refused  counts
		saved    float64
	}{
		{
			"retried",
			[]func(grpc.ServerStream) error{func(grpc.ServerStream) error { return unavailable }, answer},
			counts{"OK": 1},
			counts{"Unavailable": 1, "OK": 1},
			counts{},
			1,
		},
		{
			"broken after a message",
			[]func(grpc.ServerStream) error{func(s grpc.ServerStream) error {
				_ = answer(s)
				return unavailable
			}},
			counts{"Unavailable": 1},
			counts{"Unavailable": 1},
			counts{"committed": 1},
			0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Streams("/test.Service/Both", tt.handlers...)
				r, m := observed(t)
				stream, err := s.Dial(t, r.DialOptions()...).NewStream(t.Context(), &both, "/test.Service/Both")
				require.NoError(t, err)
				require.NoError(t, stream.RecvMsg(new(wrapperspb.StringValue)))
				assert.Zero(t, collect(t, m).sum("calls_total"), "it goes on")

				err = stream.RecvMsg(new(wrapperspb.StringValue))

				require.Error(t, err)
				assert.Equal(t, tt.saved > 0, err == io.EOF)
				got := collect(t, m)
				assert.Equal(t, tt.calls, got.by("calls_total", "grpc_code"))
				assert.Equal(t, tt.tries, got.by("attempts_total", "grpc_code"))
				assert.Equal(t, tt.refused, got.by("refused_total", "reason"))
				assert.InDelta(t, tt.saved, got.sum("retries_succeeded_total"), 0)
				assert.InDelta(t, s.Attempts(""), got.sum("attempts_total"), 0)
			})
		})
	}
}
