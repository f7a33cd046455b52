package retrybudget_test

import (
	"context"
	"fmt"
	"io"
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

func TestStreamCommit_noMessageTwice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		first    func(grpc.ServerStream) error
		got      []string
		code     codes.Code
		attempts int
	}{
		{"failure after messages", sending(unavailable("x"), "m1", "m2", "m3"), []string{"m1", "m2", "m3"}, codes.Unavailable, 1},
		{"failure before", failing(unavailable("x")), []string{"m1", "m2", "m3", "m4", "m5"}, codes.OK, 2},
		{"failure after headers", withHeader(failing(unavailable("x")), "x-id", "1"), []string{"m1", "m2", "m3", "m4", "m5"}, codes.OK, 2},
		{"end before messages", failing(nil), nil, codes.OK, 1},
		{"not retryable", failing(status.Error(codes.NotFound, "x")), nil, codes.NotFound, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.first, sending(nil, "m1", "m2", "m3", "m4", "m5"))
				r := newRetrier(t)
				cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), serverStream)
				sendAll(t, cs, "a")

				got, err := recvAll(cs)

				if test.code == codes.OK {
					assert.Equal(t, io.EOF, err)
				} else {
					assert.Equal(t, test.code, status.Code(err))
				}
				assert.Equal(t, test.got, got)
				assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod))
				for range 3 { // the same again, without an attempt more
					_, again := recvOne(cs)
					assert.Equal(t, err, again)
				}
				assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod))
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// Headers that the application has not asked for do not commit; those that
// grpc.Header collects for the end are not asked for.
func TestStreamCommit_headersNobodyReadDoNotCommit(t *testing.T) {
	t.Parallel()
	for kind, desc := range streamKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t,
					withHeader(withTrailer(reading(1, failing(unavailable("x"))), "t", "1"), "x-id", "1", "x-first", "yes"),
					withHeader(withTrailer(reading(1, sending(nil, "m")), "t", "2"), "x-id", "2"))
				cc := s.Dial(t, newRetrier(t).DialOptions()...)
				var header, trailer metadata.MD
				cs := open(t.Context(), t, cc, desc, grpc.Header(&header), grpc.Trailer(&trailer))
				sendAll(t, cs, "a")

				got, err := recvOne(cs)
				require.NoError(t, err)
				assert.Equal(t, "m", got)
				_, _ = recvOne(cs)

				assert.Equal(t, 2, s.AttemptsOf(streamMethod))
				assert.Equal(t, []string{"2"}, header.Get("x-id"))
				assert.Empty(t, header.Get("x-first"))
				assert.Equal(t, []string{"2"}, trailer.Get("t"))
				assert.Equal(t, []string{"2"}, cs.Trailer().Get("t"))
			})
		})
	}
}

func TestStreamCommit_headersThatWereRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, withHeader(later(time.Second, failing(unavailable("x"))), "x-id", "1"), sending(nil, "m"))
		r := newRetrier(t)
		cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), bidiStream)
		sendOne(t, cs, "a")
		assert.Positive(t, r.ReplayBytes())

		md, err := cs.Header()

		require.NoError(t, err)
		assert.Equal(t, []string{"1"}, md.Get("x-id"))
		assert.Zero(t, r.ReplayBytes())
		_, err = recvOne(cs)
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, "x", status.Convert(err).Message())
		assert.Equal(t, 1, s.AttemptsOf(streamMethod))
		again, err := cs.Header()
		assert.NoError(t, err)
		assert.Equal(t, md, again)
	})
}

// Header on a stream that ends without headers finds the status, so it retries.
func TestStreamCommit_headerRetriesAttemptsThatHaveNone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		last     func(grpc.ServerStream) error
		header   []string
		err      error
		attempts int
	}{
		{"then headers", withHeader(sending(nil, "m"), "x-id", "3"), []string{"3"}, io.EOF, 3},
		{"then OK without", failing(nil), nil, io.EOF, 3},
		{"then a final status", failing(status.Error(codes.NotFound, "no")), nil, status.Error(codes.NotFound, "no"), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, failing(unavailable("x")), failing(unavailable("x")), test.last)
				cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), serverStream)
				sendAll(t, cs, "a")

				md, err := cs.Header()

				require.NoError(t, err)
				assert.Equal(t, test.header, md.Get("x-id"))
				_, err = recvAll(cs)
				assert.Equal(t, status.Code(test.err), status.Code(err))
				assert.Equal(t, test.err == io.EOF, err == io.EOF)
				assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod))
			})
		})
	}
}

// One goroutine waits for a message, another asks for the headers: it must get
// them when they are there, for the server may wait for what it sends then.
func TestStreamCommit_headerBesideRecvMsg(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(grpc.ServerStream) error{
		"first attempt":  nil,
		"second attempt": failing(unavailable("x")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handlers := []func(grpc.ServerStream) error{withHeader(echoing, "session", "7")}
				if first != nil {
					handlers = append([]func(grpc.ServerStream) error{first}, handlers...)
				}
				s := streamServer(t, handlers...)
				r := newRetrier(t)
				cs := open(after(t, time.Hour), t, s.Dial(t, r.DialOptions()...), bidiStream)
				type received struct {
					text string
					err  error
				}
				first := make(chan received, 1)
				go func() {
					text, err := recvOne(cs)
					first <- received{text, err}
				}()
				synctest.Wait()

				md, err := cs.Header()
				require.NoError(t, err)
				assert.Equal(t, []string{"7"}, md.Get("session"))
				sendAll(t, cs, md.Get("session")...)

				assert.Equal(t, received{"7", nil}, <-first)
				_, err = recvOne(cs)
				assert.Equal(t, io.EOF, err)
			})
		})
	}
}

// Once a message was delivered, a failure is final whatever its code.
func TestStreamCommit_reasonAndError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("first")), sending(unavailable("second"), "m"))
		journal := &callJournal{}
		r := newRetrier(t, retrybudget.WithObserver(journal))
		var ended []error
		cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), serverStream, grpc.OnFinish(func(err error) { ended = append(ended, err) }))
		sendAll(t, cs, "a")

		got, err := recvAll(cs)

		assert.Equal(t, []string{"m"}, got)
		assert.Equal(t, "second", status.Convert(err).Message())
		assert.Equal(t, []error{err}, ended)
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonCommitted}, journal.reasons())
		require.Len(t, journal.refusals, 1)
		assert.Equal(t, retrybudget.ReasonCommitted, journal.refusals[0].Reason)
		assert.Len(t, journal.retries, 1)
	})
}

func TestStreamCommit_attemptHeader(t *testing.T) {
	t.Parallel()
	for kind, desc := range streamKinds {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " own value ", own), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, failing(unavailable("x")), failing(unavailable("x")), reading(1, sending(nil, "m")))
					cc := s.Dial(t, newRetrier(t).DialOptions()...)
					ctx, want := t.Context(), [][]string{nil, {"1"}, {"2"}}
					if own {
						ctx = metadata.AppendToOutgoingContext(ctx, "grpc-previous-rpc-attempts", "mine", "k", "v")
						want[0] = []string{"mine"}
					}
					for range 2 { // the context is as it was
						before := len(s.Entries(""))
						s.Streams(streamMethod, failing(unavailable("x")), failing(unavailable("x")), reading(1, sending(nil, "m")))
						callCtx := metadata.AppendToOutgoingContext(ctx, "call-id", fmt.Sprint(before))
						cs := open(callCtx, t, cc, desc)
						sendAll(t, cs, "a")
						_, err := recvOne(cs)
						require.NoError(t, err)
						_, _ = recvOne(cs)
						var headers [][]string
						for _, e := range s.Entries("")[before:] {
							headers = append(headers, e.MD.Get("grpc-previous-rpc-attempts"))
							if own {
								assert.Equal(t, []string{"v"}, e.MD.Get("k"))
							}
						}
						assert.Equal(t, want, headers)
					}
				})
			})
		}
	}
}

func TestStreamCommit_attemptFromContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")), failing(unavailable("x")), sending(nil, "m"))
		var numbers []int
		cc := s.Dial(t, withStreams(newRetrier(t), func(a streamOpened) (grpc.ClientStream, error) {
			numbers = append(numbers, retrybudget.AttemptFromContext(a.ctx))
			return a.open(a.ctx, a.opts...)
		})...)
		type value struct{}
		cs := open(context.WithValue(t.Context(), value{}, 1), t, cc, serverStream)
		sendAll(t, cs, "a")
		_, err := recvAll(cs)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, []int{1, 2, 3}, numbers)
		assert.Equal(t, 1, cs.Context().Value(value{}))
	})
}

// A client stream whose response came but whose status is a failure has given
// the application nothing.
func TestStreamCommit_responseOfAFailedUploadIsNotMixedIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t,
			func(ss grpc.ServerStream) error {
				_ = ss.RecvMsg(&note{})
				_ = ss.SendMsg(&note{A: "1"})
				return unavailable("x")
			},
			func(ss grpc.ServerStream) error { return ss.SendMsg(&note{B: "2"}) })
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), clientStream, grpc.CallContentSubtype(noteSubtype))
		require.NoError(t, cs.SendMsg(&note{A: "a"}))
		require.NoError(t, cs.CloseSend())

		var got note
		require.NoError(t, cs.RecvMsg(&got))

		assert.Equal(t, note{B: "2"}, got)
		assert.Equal(t, 2, s.AttemptsOf(streamMethod))
	})
}
