package retrybudget_test

import (
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
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// sendUntilRefused sends text until SendMsg fails, with the time between for the
// other side to do what it does.
func sendUntilRefused(t *testing.T, cs grpc.ClientStream, m any, most int) error {
	t.Helper()
	for range most {
		if err := cs.SendMsg(m); err != nil {
			return err
		}
		synctest.Wait()
	}
	return nil
}

// An upload that nobody receives for yet goes on in the next attempt.
func TestStreamSend_eofIsFollowedByARetry(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(grpc.ServerStream) error{
		"no headers": reading(2, failing(unavailable("x"))),
		"headers":    withHeader(reading(2, failing(unavailable("x"))), "x-id", "1"),
	} {
		for kind, desc := range map[string]*grpc.StreamDesc{"client": clientStream, "bidi": bidiStream} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, first, collecting)
					r := newRetrier(t)
					cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), desc)
					require.NoError(t, sendUntilRefused(t, cs, wrapperspb.String("a"), 5))
					assert.Equal(t, 2, s.AttemptsOf(streamMethod), "SendMsg retried")
					require.NoError(t, cs.CloseSend())
					got, err := recvOne(cs)
					require.NoError(t, err)
					assert.Equal(t, "aaaaa", got)
				})
			})
		}
	}
}

// When no retry follows, SendMsg says io.EOF and RecvMsg the true status.
func TestStreamSend_eofIsFollowedByTheStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		first  func(grpc.ServerStream) error
		desc   *grpc.StreamDesc
		opts   []grpc.CallOption
		got    []string
		code   codes.Code
		text   string
		reason retrybudget.Reason
	}{
		{"not retryable", reading(1, failing(status.Error(codes.Aborted, "bad row 9"))), clientStream, nil, nil, codes.Aborted, "bad row 9", retrybudget.ReasonNotRetryable},
		{"no attempts left", reading(1, failing(unavailable("x"))), clientStream, nil, nil, codes.Unavailable, "x", retrybudget.ReasonMaxAttempts},
		{"disabled", reading(1, failing(unavailable("x"))), clientStream, []grpc.CallOption{retrybudget.CallDisabled()}, nil, codes.Unavailable, "x", retrybudget.ReasonDisabled},
		{"answered early", reading(1, sending(nil, "enough")), clientStream, nil, []string{"enough"}, codes.OK, "", retrybudget.NoReason},
		{"ended early", reading(1, failing(nil)), bidiStream, nil, nil, codes.OK, "", retrybudget.NoReason},
		{"answers are pending", reading(1, sending(nil, "m1", "", "m3")), bidiStream, nil, []string{"m1", "", "m3"}, codes.OK, "", retrybudget.NoReason},
		{"answers are pending before a failure", reading(1, sending(unavailable("x"), "m1")), bidiStream, nil, []string{"m1"}, codes.Unavailable, "x", retrybudget.ReasonCommitted},
		{"an answer and a final status", reading(1, sending(status.Error(codes.Aborted, "a"), "m1")), bidiStream, nil, []string{"m1"}, codes.Aborted, "a", retrybudget.ReasonNotRetryable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.first)
				journal := &callJournal{}
				r := newRetrier(t, atOnce(2), retrybudget.WithObserver(journal))
				cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), test.desc, test.opts...)

				err := sendUntilRefused(t, cs, wrapperspb.String("a"), 10)

				require.Equal(t, io.EOF, err)
				assert.Equal(t, io.EOF, cs.SendMsg(wrapperspb.String("a")))
				attempts := s.AttemptsOf(streamMethod)
				require.NoError(t, cs.CloseSend())
				var got []string
				for {
					text, err := recvOne(cs)
					if err != nil {
						assert.Equal(t, test.code == codes.OK, err == io.EOF, "%v", err)
						if err != io.EOF {
							assert.Equal(t, test.code, status.Code(err))
							assert.Equal(t, test.text, status.Convert(err).Message())
						}
						break
					}
					got = append(got, text)
				}
				assert.Equal(t, test.got, got)
				assert.Equal(t, attempts, s.AttemptsOf(streamMethod), "after io.EOF nothing is retried")
				assert.Equal(t, []retrybudget.Reason{test.reason}, journal.reasons())
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// With codecs that are not the standard one, messages cannot be looked past:
// after headers the application gets io.EOF, and the answers.
func TestStreamSend_eofWithAnotherCodec(t *testing.T) {
	t.Parallel()
	read := func(next func(grpc.ServerStream) error) func(grpc.ServerStream) error {
		return func(ss grpc.ServerStream) error {
			if err := ss.RecvMsg(&note{}); err != nil {
				return err
			}
			return next(ss)
		}
	}
	answer := func(err error) func(grpc.ServerStream) error {
		return func(ss grpc.ServerStream) error {
			_ = ss.SendMsg(&note{A: "m1"})
			return err
		}
	}
	for _, test := range []struct {
		name     string
		first    func(grpc.ServerStream) error
		refused  bool
		attempts int
		got      string
		code     codes.Code
	}{
		{"no headers", read(failing(unavailable("x"))), false, 2, "late", codes.OK},
		{"headers", read(withHeader(failing(unavailable("x")), "k", "v")), true, 1, "", codes.Unavailable},
		{"answers", read(answer(nil)), true, 1, "m1", codes.OK},
		{"answers and failure", read(answer(unavailable("x"))), true, 1, "m1", codes.Unavailable},
		{"not retryable", read(failing(status.Error(codes.Aborted, "x"))), true, 1, "", codes.Aborted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.first, func(ss grpc.ServerStream) error {
					for err := error(nil); err == nil; {
						err = ss.RecvMsg(&note{})
					}
					return ss.SendMsg(&note{A: "late"})
				})
				r := newRetrier(t, atOnce(2))
				cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), bidiStream, grpc.ForceCodec(noteCodec{}))

				err := sendUntilRefused(t, cs, &note{A: "a"}, 5)

				assert.Equal(t, test.refused, err == io.EOF)
				require.NoError(t, cs.CloseSend())
				all := ""
				for {
					var got note
					if err = cs.RecvMsg(&got); err != nil {
						break
					}
					all += got.A
				}
				assert.Equal(t, test.got, all)
				assert.Equal(t, test.code == codes.OK, err == io.EOF, "%v", err)
				if err != io.EOF {
					assert.Equal(t, test.code, status.Code(err))
				}
				assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod))
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// The standard codec also takes messages of protobuf's first API.
func TestStreamSend_pendingMessageOfTheFirstAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(1, sending(nil, "m1")))
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), bidiStream)
		require.Equal(t, io.EOF, sendUntilRefused(t, cs, &firstAPI{Value: "a"}, 10))
		var got firstAPI
		require.NoError(t, cs.RecvMsg(&got))
		assert.Equal(t, "m1", got.Value)
		assert.Equal(t, io.EOF, cs.RecvMsg(&got))
	})
}

// firstAPI is like a StringValue generated long ago.
type firstAPI struct {
	Value string `protobuf:"bytes,1,opt,name=value,proto3"`
}

func (m *firstAPI) Reset()       { *m = firstAPI{} }
func (*firstAPI) String() string { return "" }
func (*firstAPI) ProtoMessage()  {}

func TestStreamSend_messagesOfTheFirstAPIAreReplayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(2, failing(unavailable("x"))), collecting)
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), clientStream)
		m := &firstAPI{}
		for _, m.Value = range []string{"a", "b", "c"} {
			require.NoError(t, cs.SendMsg(m))
		}
		require.NoError(t, cs.CloseSend())
		var got firstAPI
		require.NoError(t, cs.RecvMsg(&got))
		assert.Equal(t, "abc", got.Value)
		assert.Equal(t, 2, s.AttemptsOf(streamMethod))
	})
}

// A sender blocked by flow control is not stuck when its attempt is replaced.
func TestStreamSend_blockedWhenTheAttemptFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		receiving bool
		desc      *grpc.StreamDesc
	}{
		"client":           {false, clientStream},
		"client receiving": {true, clientStream},
		"bidi":             {false, bidiStream},
		"bidi receiving":   {true, bidiStream},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const chunks = 10
				chunk := strings.Repeat("x", 50<<10)
				count := func(ss grpc.ServerStream) error {
					n := 0
					for {
						text, err := recv(ss)
						if errors.Is(err, io.EOF) {
							return send(ss, strings.Repeat("y", n))
						}
						if err != nil {
							return err
						}
						if text != chunk {
							return status.Error(codes.DataLoss, "another chunk")
						}
						n++
					}
				}
				s := streamServer(t, later(time.Second, failing(unavailable("x"))), later(time.Second, reading(3, failing(unavailable("x")))), count)
				r := newRetrier(t)
				cs := open(after(t, time.Hour), t, dialNarrow(t, s, r), test.desc, grpc.MaxRetryRPCBufferSize(1<<20))
				got := make(chan error, 1)
				receive := func() {
					text, err := recvOne(cs)
					assert.Len(t, text, chunks)
					got <- err
				}
				if test.receiving {
					go receive()
				}
				for range chunks {
					require.NoError(t, cs.SendMsg(wrapperspb.String(chunk)))
				}
				require.NoError(t, cs.CloseSend())
				if !test.receiving {
					receive()
				}
				assert.NoError(t, <-got)
				assert.Equal(t, 3, s.AttemptsOf(streamMethod))
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}
