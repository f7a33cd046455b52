package retrybudget_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

var (
	serverStream = &grpc.StreamDesc{ServerStreams: true}
	clientStream = &grpc.StreamDesc{ClientStreams: true}
	bidiStream   = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
)

const streamMethod = "/test.Service/Stream"

// handlers returns a server whose attempt n of streamMethod runs the nth
// handler, the last one for all that follow.
func streamServer(t *testing.T, handlers ...func(grpc.ServerStream) error) *rpctest.Server {
	t.Helper()
	s := rpctest.New()
	s.Streams(streamMethod, handlers...)
	return s
}

func send(s grpc.ServerStream, texts ...string) error {
	for _, text := range texts {
		if err := s.SendMsg(wrapperspb.String(text)); err != nil {
			return err
		}
	}
	return nil
}

func recv(s grpc.ServerStream) (string, error) {
	var m wrapperspb.StringValue
	err := s.RecvMsg(&m)
	return m.GetValue(), err
}

func recvAll(s interface{ RecvMsg(any) error }) ([]string, error) {
	var all []string
	for {
		var m wrapperspb.StringValue
		if err := s.RecvMsg(&m); err != nil {
			return all, err
		}
		all = append(all, m.GetValue())
	}
}

func unavailable(text string) error { return status.Error(codes.Unavailable, text) }

func TestStream_serverStreamRetriedBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t,
			func(ss grpc.ServerStream) error { return unavailable("shard 7 down") },
			func(ss grpc.ServerStream) error {
				_ = ss.SendHeader(metadata.Pairs("x-id", "2"))
				return unavailable("shard 8 down")
			},
			func(ss grpc.ServerStream) error {
				text, err := recv(ss)
				if err != nil {
					return err
				}
				return send(ss, text, "m1", "m2")
			})
		r := newRetrier(t)
		cc := s.Dial(t, r.DialOptions()...)
		cs, err := cc.NewStream(t.Context(), serverStream, streamMethod)
		require.NoError(t, err)
		req := wrapperspb.String("n=1")
		require.NoError(t, cs.SendMsg(req))
		require.NoError(t, cs.CloseSend())
		req.Value = "n=2"
		got, err := recvAll(cs)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, []string{"n=1", "m1", "m2"}, got)
		assert.Equal(t, 3, s.AttemptsOf(streamMethod))
		assert.Zero(t, r.ReplayBytes())
		assert.Equal(t, io.EOF, cs.RecvMsg(req))
	})
}

func TestStream_notRetriedAfterTheFirstMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, func(ss grpc.ServerStream) error {
			_ = send(ss, "m1", "m2")
			return unavailable("gone")
		})
		r := newRetrier(t)
		cc := s.Dial(t, r.DialOptions()...)
		cs, err := cc.NewStream(t.Context(), serverStream, streamMethod)
		require.NoError(t, err)
		require.NoError(t, cs.SendMsg(wrapperspb.String("x")))
		got, err := recvAll(cs)
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, []string{"m1", "m2"}, got)
		assert.Equal(t, 1, s.AttemptsOf(streamMethod))
	})
}

func TestStream_uploadIsReplayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t,
			func(ss grpc.ServerStream) error {
				_ = ss.SendHeader(metadata.Pairs("x-id", "1"))
				for range 3 {
					if _, err := recv(ss); err != nil {
						return err
					}
				}
				return unavailable("gone")
			},
			func(ss grpc.ServerStream) error {
				all, err := recvAll(ss)
				if !errors.Is(err, io.EOF) {
					return err
				}
				return send(ss, strings.Join(all, ""))
			})
		r := newRetrier(t)
		cc := s.Dial(t, r.DialOptions()...)
		cs, err := cc.NewStream(t.Context(), clientStream, streamMethod)
		require.NoError(t, err)
		shared := &wrapperspb.StringValue{}
		for i := range 5 {
			shared.Value = string(rune('a' + i))
			require.NoError(t, cs.SendMsg(shared), i)
			if i == 2 {
				synctest.Wait()
			}
		}
		require.NoError(t, cs.CloseSend())
		var reply wrapperspb.StringValue
		require.NoError(t, cs.RecvMsg(&reply))
		assert.Equal(t, "abcde", reply.GetValue())
		assert.Equal(t, 2, s.AttemptsOf(streamMethod))
		assert.Zero(t, r.ReplayBytes())
	})
}

func TestStream_bidiEcho(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		echo := func(ss grpc.ServerStream) error {
			for {
				text, err := recv(ss)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := send(ss, text); err != nil {
					return err
				}
			}
		}
		s := streamServer(t, func(ss grpc.ServerStream) error { _, _ = recv(ss); return unavailable("x") }, echo)
		r := newRetrier(t)
		cc := s.Dial(t, r.DialOptions()...)
		cs, err := cc.NewStream(t.Context(), bidiStream, streamMethod)
		require.NoError(t, err)
		for _, text := range []string{"a", "b", "c"} {
			require.NoError(t, cs.SendMsg(wrapperspb.String(text)))
			var m wrapperspb.StringValue
			require.NoError(t, cs.RecvMsg(&m))
			assert.Equal(t, text, m.GetValue())
		}
		require.NoError(t, cs.CloseSend())
		_, err = recvAll(cs)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, 2, s.AttemptsOf(streamMethod))
	})
}

func TestStream_abandonedByCancelFreesEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, func(ss grpc.ServerStream) error { <-ss.Context().Done(); return ss.Context().Err() })
		var ended int
		r := newRetrier(t)
		cc := s.Dial(t, r.DialOptions()...)
		ctx, cancel := context.WithCancel(t.Context())
		cs, err := cc.NewStream(ctx, bidiStream, streamMethod, grpc.OnFinish(func(error) { ended++ }))
		require.NoError(t, err)
		require.NoError(t, cs.SendMsg(wrapperspb.String("a")))
		assert.Positive(t, r.ReplayBytes())
		cancel()
		synctest.Wait()
		assert.Zero(t, r.ReplayBytes())
		assert.Equal(t, 1, ended)
		assert.Zero(t, s.Live.Load())
		assert.Equal(t, codes.Canceled, status.Code(cs.RecvMsg(&wrapperspb.StringValue{})))
	})
}

func TestStream_perAttemptTimeoutEndsAtCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t,
			func(ss grpc.ServerStream) error { <-ss.Context().Done(); return ss.Context().Err() },
			func(ss grpc.ServerStream) error {
				_ = send(ss, "m1")
				select {
				case <-time.After(time.Hour):
				case <-ss.Context().Done():
					return ss.Context().Err()
				}
				return send(ss, "m2")
			})
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{PerAttemptTimeout: time.Second, Idempotency: retrybudget.Idempotent}))
		cc := s.Dial(t, r.DialOptions()...)
		cs, err := cc.NewStream(t.Context(), serverStream, streamMethod)
		require.NoError(t, err)
		require.NoError(t, cs.SendMsg(wrapperspb.String("x")))
		got, err := recvAll(cs)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, []string{"m1", "m2"}, got)
		assert.Equal(t, 2, s.AttemptsOf(streamMethod))
	})
}
