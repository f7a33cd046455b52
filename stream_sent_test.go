package retrybudget_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The attempt may be replaced after it took a message and before that is noted:
// the next one gets the message all the same, once.
func TestStreamSend_replacedWhileAMessageIsSent(t *testing.T) {
	t.Parallel()
	for kind, desc := range map[string]*grpc.StreamDesc{"client": clientStream, "bidi": bidiStream} {
		for _, at := range []int{1, 2, 3} {
			t.Run(fmt.Sprint(kind, " at message ", at), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, reading(at, failing(unavailable("x"))), collecting)
					cc := s.Dial(t, tapped(newRetrier(t, atOnce(3)), func(n int, s *tap) {
						sent := 0
						s.send = func(m any, next func(any) error) error {
							err := next(m)
							if sent++; n == 1 && sent == at {
								<-time.After(time.Second) // in which the receiver replaces it
							}
							return err
						}
					})...)
					cs := open(t.Context(), t, cc, desc)
					got := make(chan string, 1)
					go func() {
						text, err := recvOne(cs)
						got <- fmt.Sprint(text, err)
					}()
					for _, text := range []string{"a", "b", "c", "d"} {
						require.NoError(t, cs.SendMsg(wrapperspb.String(text)))
					}
					require.NoError(t, cs.CloseSend())
					assert.Equal(t, "abcd<nil>", <-got)
					assert.Equal(t, 2, s.AttemptsOf(streamMethod))
				})
			})
		}
	}
}

// Generated code of a server stream returns an error of SendMsg instead of the
// stream, so io.EOF is hidden from it, as grpc-go does.
func TestStreamSend_serverStreamNeverSaysEOF(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler func(grpc.ServerStream) error
		cancel  bool
		code    codes.Code
	}{
		"cancelled":     {hanging, true, codes.Canceled},
		"failed":        {failing(status.Error(codes.NotFound, "x")), false, codes.NotFound},
		"out of tries":  {failing(unavailable("x")), false, codes.Unavailable},
		"after timeout": {hanging, false, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handler)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cs := open(ctx, t, s.Dial(t, newRetrier(t, perTry(1)).DialOptions()...), serverStream)
				if test.cancel {
					cancel()
				}
				<-time.After(time.Minute)
				assert.NoError(t, cs.SendMsg(wrapperspb.String("a")))
				assert.NoError(t, cs.CloseSend())
				_, err := recvOne(cs)
				assert.Equal(t, test.code, status.Code(err))
			})
		})
	}
}
