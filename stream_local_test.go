package retrybudget_test

import (
	"context"
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

// Errors that the client itself makes end the call, are not retried and are the
// same from SendMsg and from RecvMsg.
func TestStreamLocal_errors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts []grpc.CallOption
		do   func(cs grpc.ClientStream) error
		code codes.Code
		text string
	}{
		"too large": {
			[]grpc.CallOption{grpc.MaxCallSendMsgSize(1000)},
			func(cs grpc.ClientStream) error { return cs.SendMsg(wrapperspb.String(strings.Repeat("x", 2000))) },
			codes.ResourceExhausted, "trying to send message larger than max",
		},
		"no message": {
			nil, func(cs grpc.ClientStream) error { return cs.SendMsg("text") },
			codes.Internal, "grpc: error while marshaling",
		},
		"invalid UTF-8": {
			nil, func(cs grpc.ClientStream) error { return cs.SendMsg(wrapperspb.String("\xff")) },
			codes.Internal, "grpc: error while marshaling",
		},
		"after CloseSend": {
			nil, func(cs grpc.ClientStream) error {
				_ = cs.CloseSend()
				return cs.SendMsg(wrapperspb.String("a"))
			},
			codes.Internal, "SendMsg called after CloseSend",
		},
	} {
		for _, receiving := range []bool{false, true} {
			for _, committed := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := streamServer(t, withHeader(hanging, "k", "v"))
						ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
						r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal))
						cs := open(after(t, time.Hour), t, s.Dial(t, r.DialOptions()...), bidiStream, test.opts...)
						require.NoError(t, cs.SendMsg(wrapperspb.String("a")))
						synctest.Wait()
						if committed {
							_, err := cs.Header()
							require.NoError(t, err)
						}
						got := make(chan error, 1)
						if receiving {
							go func() { got <- cs.RecvMsg(&wrapperspb.StringValue{}) }()
							synctest.Wait()
						}
						start := time.Now()

						err := test.do(cs)

						if !receiving {
							got <- cs.RecvMsg(&wrapperspb.StringValue{})
						}
						assert.Equal(t, test.code, status.Code(err))
						assert.ErrorContains(t, err, test.text)
						assert.Equal(t, err, <-got)
						assert.Equal(t, io.EOF, cs.SendMsg(wrapperspb.String("a")))
						assert.Zero(t, time.Since(start))
						assert.Equal(t, 1, s.AttemptsOf(streamMethod))
						assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonNotRetryable}, journal.reasons())
						assert.Empty(t, ledger.read())
						assert.Zero(t, r.ReplayBytes())
						synctest.Wait()
						assert.Zero(t, s.Live.Load())
					})
				})
			}
		}
	}
}

// A stream wrapper further in, say one that validates messages, may refuse one
// and leave the stream alone. The application must hear of it at once, whether
// or not somebody is receiving.
func TestStreamLocal_refusedByAnInnerStream(t *testing.T) {
	t.Parallel()
	refusal := status.Error(codes.InvalidArgument, "empty name")
	for _, receiving := range []bool{false, true} {
		for _, committed := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, withHeader(hanging, "k", "v"))
					r := newRetrier(t)
					cc := s.Dial(t, tapped(r, func(_ int, s *tap) {
						s.send = func(m any, next func(any) error) error {
							if m, ok := m.(*wrapperspb.StringValue); ok && m.GetValue() == "" {
								return refusal
							}
							return next(m)
						}
					})...)
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					cs := open(ctx, t, cc, bidiStream)
					require.NoError(t, cs.SendMsg(wrapperspb.String("a")))
					if committed {
						_, err := cs.Header()
						require.NoError(t, err)
					}
					if receiving {
						go func() { _ = cs.RecvMsg(&wrapperspb.StringValue{}) }()
						synctest.Wait()
					}
					start := time.Now()

					err := cs.SendMsg(wrapperspb.String(""))

					assert.Zero(t, time.Since(start), "SendMsg waited for the receiver")
					assert.Equal(t, refusal, err)
					assert.Equal(t, refusal, cs.RecvMsg(&wrapperspb.StringValue{}))
				})
			})
		}
	}
}

// Prepared messages are sent as they are; they cannot be kept, so they commit.
func TestStreamLocal_preparedMessageCommits(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]grpc.CallOption{
		"proto": nil,
		"note":  {grpc.CallContentSubtype(noteSubtype)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, func(ss grpc.ServerStream) error {
					if opts == nil {
						return reading(1, failing(unavailable("x")))(ss)
					}
					if err := ss.RecvMsg(&note{}); err != nil {
						return err
					}
					return unavailable("x")
				})
				listener := s.Start(t)
				bare := open(t.Context(), t, listener.Dial(t), bidiStream, opts...)
				var m any = wrapperspb.String("a")
				if opts != nil {
					m = &note{A: "a"}
				}
				prepared := &grpc.PreparedMsg{}
				require.NoError(t, prepared.Encode(bare, m))
				r := newRetrier(t)
				cs := open(t.Context(), t, listener.Dial(t, r.DialOptions()...), bidiStream, opts...)

				require.NoError(t, cs.SendMsg(prepared))

				assert.Zero(t, r.ReplayBytes())
				err := cs.RecvMsg(&wrapperspb.StringValue{})
				assert.Equal(t, codes.Unavailable, status.Code(err))
				synctest.Wait()
				assert.Equal(t, 2, s.AttemptsOf(streamMethod), "the bare stream's and this one's")
			})
		})
	}
}
