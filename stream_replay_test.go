package retrybudget_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// Each attempt sees the messages in order, and the half-close exactly when the
// application did it.
func TestStreamReplay_prefixAndHalfClose(t *testing.T) {
	t.Parallel()
	for kind, desc := range map[string]*grpc.StreamDesc{"client": clientStream, "bidi": bidiStream} {
		for failAfter := range 4 {
			for _, halfCloseFirst := range []bool{true, false} {
				t.Run(fmt.Sprint(kind, " fails after ", failAfter, " half-closed ", halfCloseFirst), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						var seen []string
						s := streamServer(t, reading(failAfter, failing(unavailable("x"))), func(ss grpc.ServerStream) error {
							var err error
							if seen, err = recvAll(ss); err != io.EOF {
								return err
							}
							return send(ss, strings.Join(seen, ""))
						})
						r := newRetrier(t, atOnce(3))
						cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), desc)
						for _, text := range []string{"a", "b", "c"} {
							require.NoError(t, cs.SendMsg(wrapperspb.String(text)))
						}
						if halfCloseFirst {
							require.NoError(t, cs.CloseSend())
						}
						synctest.Wait()
						done := make(chan struct{})
						go func() {
							defer close(done)
							got, err := recvOne(cs)
							assert.NoError(t, err)
							assert.Equal(t, "abc", got)
						}()
						synctest.Wait()
						assert.Equal(t, 2, s.AttemptsOf(streamMethod), "before the half-close as well")
						require.NoError(t, cs.CloseSend())
						require.NoError(t, cs.CloseSend())
						<-done
						assert.Equal(t, []string{"a", "b", "c"}, seen)
						assert.Zero(t, r.ReplayBytes())
					})
				})
			}
		}
	}
}

// Many attempts of an upload, each ends at another place.
func TestStreamReplay_everyAttemptFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen [][]string
		handlers := make([]func(grpc.ServerStream) error, 0, 8)
		for n := range 7 {
			handlers = append(handlers, func(ss grpc.ServerStream) error {
				var got []string
				for range n {
					text, err := recv(ss)
					if err != nil {
						return err
					}
					got = append(got, text)
				}
				seen = append(seen, got)
				return unavailable("x")
			})
		}
		s := streamServer(t, append(handlers, collecting)...)
		r := newRetrier(t, atOnce(8))
		cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), clientStream)
		shared := &wrapperspb.StringValue{}
		for i := range 10 {
			shared.Value = fmt.Sprint(i)
			require.NoError(t, cs.SendMsg(shared))
			synctest.Wait()
		}
		require.NoError(t, cs.CloseSend())

		got, err := recvOne(cs)

		require.NoError(t, err)
		assert.Equal(t, "0123456789", got)
		for n, of := range seen {
			require.Len(t, of, n)
			for i, text := range of {
				assert.Equal(t, fmt.Sprint(i), text)
			}
		}
		assert.Len(t, seen, 7)
	})
}

// The request of a server stream is what it was when it was sent.
func TestStreamReplay_requestChangedByTheApplication(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")), echoing)
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), serverStream)
		req := wrapperspb.Bytes([]byte("n=1"))
		require.NoError(t, cs.SendMsg(req))
		require.NoError(t, cs.CloseSend())
		copy(req.Value, "n=2")

		var got wrapperspb.BytesValue
		require.NoError(t, cs.RecvMsg(&got))
		assert.Equal(t, "n=1", string(got.GetValue()))
	})
}

// A wrapper further in may refuse to send again.
func TestStreamReplay_refusedByAnInnerStream(t *testing.T) {
	t.Parallel()
	refusal := status.Error(codes.PermissionDenied, "twice is once too often")
	for kind, desc := range streamKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, failing(unavailable("x")), hanging)
				r := newRetrier(t)
				cc := s.Dial(t, tapped(r, func(n int, s *tap) {
					s.send = func(m any, next func(any) error) error {
						if n > 1 {
							return refusal
						}
						return next(m)
					}
				})...)
				cs := open(t.Context(), t, cc, desc)
				sendOne(t, cs, "a")

				_, err := recvOne(cs)

				assert.Equal(t, refusal, err)
				synctest.Wait()
				assert.Zero(t, s.Live.Load())
			})
		})
	}
}

// The kept bytes are the library's own: what an interceptor further in does to
// the message of one attempt is not seen by the next.
func TestStreamReplay_innerInterceptorChangesTheMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(1, failing(unavailable("x"))), reading(1, failing(unavailable("x"))), echoing)
		cc := s.Dial(t, tapped(newRetrier(t), func(n int, s *tap) {
			s.send = func(m any, next func(any) error) error {
				if text, ok := m.(*wrapperspb.BytesValue); ok && n > 1 {
					text.Value[0]++
				}
				return next(m)
			}
		})...)
		cs := open(t.Context(), t, cc, bidiStream)
		require.NoError(t, cs.SendMsg(wrapperspb.Bytes([]byte("a"))))
		var got wrapperspb.BytesValue
		require.NoError(t, cs.RecvMsg(&got))
		assert.Equal(t, "b", string(got.GetValue()))
	})
}

// Another interceptor of the same Retrier lets the attempts pass.
func TestStreamReplay_twiceOnOneConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(1, failing(unavailable("x"))))
		r := newRetrier(t)
		cc := s.Dial(t, append(r.DialOptions(), grpc.WithChainStreamInterceptor(r.StreamClientInterceptor()))...)
		cs := open(t.Context(), t, cc, bidiStream)
		sendAll(t, cs, "a")
		_, err := recvOne(cs)
		assert.ErrorIs(t, err, retrybudget.ErrAttemptsExhausted)
		assert.Equal(t, 3, s.AttemptsOf(streamMethod))
	})
}
