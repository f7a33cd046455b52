package retrybudget_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// Replays of more than the flow-control windows hold.

// dialNarrow connects with flow-control windows that do not grow.
func dialNarrow(t *testing.T, s *rpctest.Server, r *retrybudget.Retrier) *grpc.ClientConn {
	t.Helper()
	const window = 64 << 10
	return s.Start(t, grpc.InitialWindowSize(window)).Dial(t, append(r.DialOptions(), grpc.WithInitialWindowSize(window))...)
}

// A bidirectional server answers while the replay still runs, and reads on only
// when its answers are taken: replay and receiving must go on side by side.
func TestStreamReplay_serverBlocksWriting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const chunks = 20
		chunk := string(bytes.Repeat([]byte("x"), 20<<10))
		answer := strings.Repeat("y", 100<<10) // larger than all windows on the way, soon
		s := streamServer(t, reading(chunks, failing(unavailable("x"))), func(ss grpc.ServerStream) error {
			for {
				_, err := recv(ss)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := send(ss, answer); err != nil {
					return err
				}
			}
		})
		cs := open(after(t, time.Hour), t, dialNarrow(t, s, newRetrier(t)), bidiStream, grpc.MaxRetryRPCBufferSize(1<<20))
		for range chunks {
			require.NoError(t, cs.SendMsg(wrapperspb.String(chunk)))
		}
		require.NoError(t, cs.CloseSend())

		got, err := recvAll(cs)

		assert.Equal(t, io.EOF, err)
		assert.Len(t, got, chunks)
		assert.Equal(t, 2, s.AttemptsOf(streamMethod))
	})
}

// A server that answers an upload, or sends headers, without reading on is
// heard, whatever is still to be replayed.
func TestStreamReplay_uploadIsAnsweredWithoutBeingRead(t *testing.T) {
	t.Parallel()
	const chunks = 20
	chunk := strings.Repeat("x", 20<<10)
	for name, second := range map[string]func(grpc.ServerStream) error{
		"headers":          withHeader(later(time.Minute, sending(nil, "m")), "h", "1"),
		"headers, reading": withHeader(reading(chunks, sending(nil, "m")), "h", "1"),
		"answer":           sending(nil, "m"),
		"NOT_FOUND":        failing(status.Error(codes.NotFound, "x")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, reading(chunks, failing(unavailable("x"))), second)
				r := newRetrier(t, atOnce(2))
				cs := open(after(t, time.Hour), t, dialNarrow(t, s, r), clientStream, grpc.MaxRetryRPCBufferSize(1<<20))
				for range chunks {
					require.NoError(t, cs.SendMsg(wrapperspb.String(chunk)))
				}
				require.NoError(t, cs.CloseSend())
				start := time.Now()

				md, err := cs.Header()

				assert.Zero(t, time.Since(start), "it waited for the server to read")
				if strings.HasPrefix(name, "headers") {
					assert.NoError(t, err)
					assert.Equal(t, []string{"1"}, md.Get("h"))
				}
				got, err := recvOne(cs)
				if name == "NOT_FOUND" {
					assert.Equal(t, codes.NotFound, status.Code(err), "%v", err)
				} else {
					assert.NoError(t, err)
					assert.Equal(t, "m", got)
				}
				synctest.Wait()
				assert.Equal(t, 2, s.AttemptsOf(streamMethod))
				assert.Zero(t, r.ReplayBytes())
				assert.Zero(t, s.Live.Load())
			})
		})
	}
}

// CloseSend never waits for the server, as without the Retrier.
func TestStreamReplay_closeSendDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const chunks = 20
		chunk := strings.Repeat("x", 20<<10)
		answer := strings.Repeat("y", 100<<10)
		s := streamServer(t, reading(chunks, failing(unavailable("x"))), func(ss grpc.ServerStream) error {
			for n := 0; ; n++ {
				if _, err := recv(ss); err != nil {
					return send(ss, fmt.Sprint(n))
				}
				if err := send(ss, answer); err != nil {
					return err
				}
			}
		})
		ctx := after(t, time.Second)
		cs := open(ctx, t, dialNarrow(t, s, newRetrier(t)), bidiStream, grpc.MaxRetryRPCBufferSize(1<<20))
		for range chunks {
			require.NoError(t, cs.SendMsg(wrapperspb.String(chunk)))
		}
		md, err := cs.Header() // from attempt 2, in the middle of its replay
		require.NoError(t, err)
		require.NotNil(t, md)

		require.NoError(t, cs.CloseSend())

		require.NoError(t, ctx.Err(), "CloseSend waited")
		got, err := recvAll(cs)
		assert.Equal(t, io.EOF, err)
		require.Len(t, got, chunks+1)
		assert.Equal(t, fmt.Sprint(chunks), got[chunks])
	})
}
