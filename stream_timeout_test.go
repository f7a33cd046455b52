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
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// perTry is a per-attempt timeout of 1 s on an idempotent method.
func perTry(attempts int) retrybudget.Option {
	return retrybudget.WithPolicy(retrybudget.Policy{
		MaxAttempts: attempts, PerAttemptTimeout: time.Second, Idempotency: retrybudget.Idempotent,
		Backoff: retrybudget.ConstantBackoff(0),
	})
}

func TestStreamTimeout_endsAnAttemptWithoutAMessage(t *testing.T) {
	t.Parallel()
	for name, hang := range map[string]func(grpc.ServerStream) error{
		"silent":       hanging,
		"headers only": withHeader(hanging, "x-id", "1"),
		"reads":        reading(1, hanging),
	} {
		for kind, desc := range streamKinds {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, hang)
					r := newRetrier(t, perTry(3))
					start := time.Now()
					cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), desc)
					sendAll(t, cs, "a")

					_, err := recvOne(cs)

					assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
					assert.Equal(t, "retrybudget: attempt 3 timed out after 1s", status.Convert(err).Message())
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.ErrorIs(t, err, retrybudget.ErrAttemptsExhausted)
					assert.Equal(t, []time.Duration{time.Second, time.Second}, s.Gaps(""))
					assert.Equal(t, 3*time.Second, time.Since(start))
					assert.Equal(t, []time.Duration{0, 0, 0}, leftOf(s), "the server is not told a time that may be withdrawn")
					synctest.Wait()
					assert.Zero(t, s.Live.Load())
					assert.Zero(t, r.ReplayBytes())
				})
			})
		}
	}
}

func TestStreamTimeout_theLastAttemptGetsTheRestOfTheCallsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, hanging, hanging, later(5*time.Second, sending(nil, "m")))
		r := newRetrier(t, perTry(3))
		cs := open(after(t, time.Minute), t, s.Dial(t, r.DialOptions()...), serverStream)
		sendAll(t, cs, "a")

		got, err := recvAll(cs)

		assert.Equal(t, io.EOF, err)
		assert.Equal(t, []string{"m"}, got)
		assert.Equal(t, []time.Duration{time.Minute, 59 * time.Second, 58 * time.Second}, leftOf(s))
	})
}

func TestStreamTimeout_isNotBlamedForTheCallsDeadline(t *testing.T) {
	t.Parallel()
	for _, deadline := range []time.Duration{500 * ms, time.Second} {
		t.Run(deadline.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, hanging)
				journal := &callJournal{}
				r := newRetrier(t, perTry(3), retrybudget.WithObserver(journal))
				start := time.Now()
				cs := open(after(t, deadline), t, s.Dial(t, r.DialOptions()...), serverStream)
				sendAll(t, cs, "a")

				_, err := recvOne(cs)

				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.NotContains(t, err.Error(), "timed out after")
				assert.Equal(t, deadline, time.Since(start))
				assert.Equal(t, 1, s.AttemptsOf(streamMethod))
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDeadline}, journal.reasons())
			})
		})
	}
}

// A stream that never retries has the timeout of its policy all the same, when
// its call has no deadline: as a unary call has.
func TestStreamTimeout_withoutRetries(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]grpc.CallOption{
		"MaxAttempts 1": retrybudget.CallMaxAttempts(1),
		"disabled":      retrybudget.CallDisabled(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, hanging)
				r := newRetrier(t, perTry(3))
				start := time.Now()
				cs := open(after(t, time.Hour), t, s.Dial(t, r.DialOptions()...), serverStream, opt)
				sendAll(t, cs, "a")
				_, err := recvOne(cs)
				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.Equal(t, time.Hour, time.Since(start), "all that the call has left")

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Hour, cancel) // so that the test ends
				start = time.Now()
				cs = open(ctx, t, s.Dial(t, r.DialOptions()...), serverStream, opt)
				sendAll(t, cs, "a")
				_, err = recvOne(cs)
				assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
				assert.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}

// What commits a stream lifts its timeout.
func TestStreamTimeout_endsAtCommit(t *testing.T) {
	t.Parallel()
	slow := later(time.Hour, sending(nil, "late"))
	big := make([]byte, 1000)
	for name, test := range map[string]struct {
		handler func(grpc.ServerStream) error
		commit  func(t *testing.T, cs grpc.ClientStream)
		got     []string
	}{
		"message": {
			handler: func(ss grpc.ServerStream) error { _ = send(ss, "first"); return slow(ss) },
			commit:  func(*testing.T, grpc.ClientStream) {},
			got:     []string{"first", "late"},
		},
		"headers": {
			handler: withHeader(slow, "x-id", "1"),
			commit: func(t *testing.T, cs grpc.ClientStream) {
				md, err := cs.Header()
				assert.NoError(t, err)
				assert.Equal(t, []string{"1"}, md.Get("x-id"))
			},
			got: []string{"late"},
		},
		"overflow": {
			handler: slow,
			commit: func(t *testing.T, cs grpc.ClientStream) {
				assert.NoError(t, cs.SendMsg(wrapperspb.String(string(big))))
			},
			got: []string{"late"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handler)
				r := newRetrier(t, perTry(3), retrybudget.WithReplayLimits(500, 1<<20))
				cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), bidiStream)
				sendOne(t, cs, "a")

				test.commit(t, cs)
				got, err := recvAll(cs)

				assert.Equal(t, io.EOF, err)
				assert.Equal(t, test.got, got)
				assert.Equal(t, 1, s.AttemptsOf(streamMethod))
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// The server answered in time and in full, but the application came for it when
// the timeout had ended the attempt. No message of that attempt may be dropped
// and the stream called complete.
func TestStreamTimeout_noMessageIsLostWhenTheApplicationComesLate(t *testing.T) {
	t.Parallel()
	for kind, desc := range streamKinds {
		for name, idempotency := range map[string]retrybudget.Idempotency{"retried": retrybudget.Idempotent, "not": retrybudget.NonIdempotent} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, sending(nil, "m1"))
					r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
						PerAttemptTimeout: time.Second, Idempotency: idempotency,
						Backoff: retrybudget.ConstantBackoff(0),
					}))
					cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), desc)
					sendAll(t, cs, "a")
					<-time.After(time.Minute)

					got, err := recvOne(cs)

					if err == nil {
						assert.Equal(t, "m1", got)
						return
					}
					assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "neither a message nor an honest error: %v", err)
					assert.NotEqual(t, retrybudget.Idempotent, idempotency, "a timeout of an idempotent method is retried")
				})
			})
		}
	}
}

// The timeout strikes after the message came in and before the Retrier saw it.
func TestStreamTimeout_atTheInstantOfTheMessage(t *testing.T) {
	t.Parallel()
	for kind, desc := range streamKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, sending(nil, "of attempt 1"), sending(nil, "of attempt 2"))
				r := newRetrier(t, perTry(3))
				cc := s.Dial(t, tapped(r, func(n int, s *tap) {
					s.recv = func(m any, next func(any) error) error {
						err := next(m)
						if n == 1 {
							<-time.After(time.Minute)
						}
						return err
					}
				})...)
				cs := open(t.Context(), t, cc, desc)
				sendAll(t, cs, "a")

				got, err := recvOne(cs)

				require.NoError(t, err)
				assert.Equal(t, fmt.Sprint("of attempt ", s.AttemptsOf(streamMethod)), got)
			})
		})
	}
}

// An attempt that its timeout has cut off is not given to the application, as
// it would break off after what had come in by then.
func TestStreamTimeout_noPartOfAnAttemptThatWasCutOff(t *testing.T) {
	t.Parallel()
	for kind, desc := range map[string]*grpc.StreamDesc{"server": serverStream, "bidi": bidiStream} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, func(ss grpc.ServerStream) error { _ = send(ss, "of attempt 1"); return hanging(ss) }, sending(nil, "m1", "m2"))
				cs := open(t.Context(), t, s.Dial(t, newRetrier(t, perTry(3)).DialOptions()...), desc)
				sendAll(t, cs, "a")
				<-time.After(time.Minute)

				got, err := recvAll(cs)

				assert.Equal(t, io.EOF, err)
				assert.Equal(t, []string{"m1", "m2"}, got)
			})
		})
	}
}

// It also bounds the opening of an attempt.
func TestStreamTimeout_whileAnAttemptOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, sending(nil, "m"))
		r := newRetrier(t, perTry(3))
		cc := s.Dial(t, withStreams(r, func(a streamOpened) (grpc.ClientStream, error) {
			if a.n < 3 {
				<-a.ctx.Done()
				return nil, status.FromContextError(a.ctx.Err()).Err()
			}
			return a.open(a.ctx, a.opts...)
		})...)
		start := time.Now()

		cs := open(t.Context(), t, cc, serverStream)
		sendAll(t, cs, "a")
		got, err := recvAll(cs)

		assert.Equal(t, io.EOF, err)
		assert.Equal(t, []string{"m"}, got)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}
