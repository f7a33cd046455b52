package retrybudget_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// The caller's cancel and deadline work at every moment.
func TestStreamEnd_callerAtEveryMoment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handlers []func(grpc.ServerStream) error
		opening  time.Duration // that each attempt takes to open
		at       time.Duration
		attempts int // 0: not known
	}{
		"before the first message":  {[]func(grpc.ServerStream) error{hanging}, 0, 10 * ms, 1},
		"after headers":             {[]func(grpc.ServerStream) error{withHeader(hanging, "k", "v")}, 0, 10 * ms, 1},
		"in the wait":               {[]func(grpc.ServerStream) error{failing(unavailable("x"))}, 0, 50 * ms, 1},
		"in the second attempt":     {[]func(grpc.ServerStream) error{failing(unavailable("x")), hanging}, 0, 150 * ms, 2},
		"while the first opens":     {[]func(grpc.ServerStream) error{hanging}, time.Second, 10 * ms, 0},
		"while the second opens":    {[]func(grpc.ServerStream) error{failing(unavailable("x"))}, 30 * ms, 140 * ms, 1},
		"in the replay":             {[]func(grpc.ServerStream) error{reading(1, failing(unavailable("x"))), hanging}, 0, 100 * ms, 0},
		"at the start of the call":  {[]func(grpc.ServerStream) error{hanging}, 0, 0, 0},
		"together with the failure": {[]func(grpc.ServerStream) error{later(10*ms, failing(unavailable("x")))}, 0, 10 * ms, 1},
	} {
		for kind, desc := range streamKinds {
			for _, deadline := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", kind, " deadline ", deadline), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := streamServer(t, test.handlers...)
						ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
						r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{
							Backoff: retrybudget.ConstantBackoff(100 * ms),
						}))
						cc := s.Dial(t, withStreams(r, func(a streamOpened) (grpc.ClientStream, error) {
							select {
							case <-time.After(test.opening):
								return a.open(a.ctx, a.opts...)
							case <-a.ctx.Done():
								return nil, status.FromContextError(a.ctx.Err()).Err()
							}
						})...)
						ctx, cancel := context.WithCancel(t.Context())
						code := codes.Canceled
						if deadline {
							ctx, cancel = context.WithTimeout(t.Context(), test.at)
							code = codes.DeadlineExceeded
						} else {
							time.AfterFunc(test.at, cancel)
						}
						defer cancel()
						var ended []error
						start := time.Now()

						cs, err := cc.NewStream(ctx, desc, streamMethod, grpc.OnFinish(func(err error) { ended = append(ended, err) }))
						if err == nil {
							_ = cs.SendMsg(wrapperspb.String("a"))
							_, err = recvOne(cs)
							_, again := recvOne(cs)
							assert.Equal(t, err, again)
						}

						// A deadline that a wait cannot meet ends the call at once.
						early := deadline && status.Code(err) == codes.Unavailable
						switch {
						case name == "together with the failure" && status.Code(err) == codes.Unavailable: // it was first
						case early:
							assert.ErrorIs(t, err, retrybudget.ErrDeadline)
							assert.Less(t, time.Since(start), test.at)
						default:
							assert.Equal(t, code, status.Code(err), "%v", err)
							assert.Equal(t, test.at, time.Since(start))
						}
						synctest.Wait()
						assert.Equal(t, []error{err}, ended)
						if !early && test.attempts > 0 {
							assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod))
						}
						assert.Len(t, journal.reasons(), 1)
						assert.Contains(t, []retrybudget.Reason{retrybudget.ReasonCanceled, retrybudget.ReasonDeadline}, journal.reasons()[0])
						assert.Zero(t, s.Live.Load())
						assert.Zero(t, r.ReplayBytes())
						requireSettled(t, ledger)
					})
				})
			}
		}
	}
}

func TestStreamEnd_connectionClosedAtEveryMoment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handlers []func(grpc.ServerStream) error
		at       time.Duration
		code     codes.Code
		calls    bool // the application is in a call at that moment
	}{
		"idle":                     {[]func(grpc.ServerStream) error{hanging}, 10 * ms, codes.Canceled, false},
		"before the first message": {[]func(grpc.ServerStream) error{hanging}, 10 * ms, codes.Canceled, true},
		"after it":                 {[]func(grpc.ServerStream) error{func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) }}, 10 * ms, codes.Canceled, true},
		"in the wait":              {[]func(grpc.ServerStream) error{failing(unavailable("x"))}, 50 * ms, codes.Unavailable, true},
		"in the second attempt":    {[]func(grpc.ServerStream) error{failing(unavailable("x")), hanging}, 150 * ms, codes.Unavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handlers...)
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{
					Backoff: retrybudget.ConstantBackoff(100 * ms), RetryableCodes: []codes.Code{codes.Canceled, codes.Unavailable},
				}))
				cc := s.Dial(t, r.DialOptions()...)
				ended := 0
				cs := open(t.Context(), t, cc, bidiStream, grpc.OnFinish(func(error) { ended++ }))
				sendOne(t, cs, "a")
				time.AfterFunc(test.at, func() { _ = cc.Close() })
				start := time.Now()
				if test.calls {
					_, err := recvAll(cs)
					assert.Equal(t, test.code, status.Code(err))
					assert.ErrorContains(t, err, "closing")
					assert.Equal(t, test.at, time.Since(start))
				} else {
					<-time.After(test.at)
				}
				synctest.Wait()
				assert.Equal(t, connectivity.Shutdown, cc.GetState())
				assert.Equal(t, 1, ended)
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonClosed}, journal.reasons())
				assert.Zero(t, s.Live.Load())
				assert.Zero(t, r.ReplayBytes())
				requireSettled(t, ledger)
				_, err := recvOne(cs)
				assert.Equal(t, test.code, status.Code(err))
			})
		})
	}
}

// A dead server: each open of a stream fails, and the caller's cancel is heeded.
func TestStreamEnd_cancelWhileNothingAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, sending(nil, "m"))
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 1000, Backoff: retrybudget.ConstantBackoff(200 * ms)}))
		opened := 0
		start := time.Now()
		cc := s.Dial(t, withStreams(r, func(a streamOpened) (grpc.ClientStream, error) {
			opened++
			if time.Since(start) < 510*ms {
				return nil, unavailable("connection refused")
			}
			return a.open(a.ctx, a.opts...)
		})...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*ms, cancel)

		_, err := cc.NewStream(ctx, bidiStream, streamMethod)

		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, "connection refused")
		assert.Equal(t, 500*ms, time.Since(start))
		<-time.After(time.Minute)
		assert.Equal(t, 3, opened, "not once more when the server is back")
		assert.Zero(t, s.AttemptsOf(streamMethod))
	})
}

// Attempts that fail to open leave no context and no timer behind.
func TestStreamEnd_failedOpensLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
			PerAttemptTimeout: time.Hour, Timeout: 2 * time.Hour, Backoff: retrybudget.ConstantBackoff(ms), Idempotency: retrybudget.Idempotent,
		}))
		cc, way := streamServer(t, hanging).Start(t).DialCuttable(t, r.DialOptions()...)
		way.Down()
		for range 1000 {
			parent := newCountingContext(t.Context())
			_, err := cc.NewStream(parent, bidiStream, streamMethod)
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.ErrorIs(t, err, retrybudget.ErrAttemptsExhausted)
			live, derived := parent.counts()
			require.Zero(t, live)
			require.Positive(t, derived)
			parent.cancel()
		}
	})
}

func TestStreamEnd_leavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, handlers := range map[string][]func(grpc.ServerStream) error{
		"OK":               {sending(nil, "m")},
		"OK after retries": {failing(unavailable("x")), failing(unavailable("x")), sending(nil, "m")},
		"exhausted":        {failing(unavailable("x"))},
		"not retryable":    {failing(status.Error(codes.NotFound, "x"))},
		"timeouts":         {hanging},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, handlers...)
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
					PerAttemptTimeout: time.Minute, Timeout: time.Hour, Idempotency: retrybudget.Idempotent,
				}))
				parent := newCountingContext(t.Context())
				defer parent.cancel()
				cs := open(parent, t, s.Dial(t, r.DialOptions()...), bidiStream)
				sendOne(t, cs, "a")
				_, _ = recvAll(cs)
				synctest.Wait()
				live, _ := parent.counts()
				assert.Zero(t, live)
				assert.Zero(t, s.Live.Load())
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// The server sees the end of an abandoned attempt at once, also when its handler
// waits for it.
func TestStreamEnd_abandonedAttemptsEndOnTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ss grpc.ServerStream) error {
			<-time.After(50 * ms)
			_ = ss.SendHeader(metadata.Pairs("k", "v"))
			<-ss.Context().Done()
			return ss.Context().Err()
		}
		s := streamServer(t, slow, slow, slow, slow, func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) })
		r := newRetrier(t, perTry(5))
		ctx, cancel := context.WithCancel(t.Context())
		cs := open(ctx, t, s.Dial(t, r.DialOptions()...), serverStream)
		sendAll(t, cs, "a")

		_, err := recvOne(cs)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, int64(1), s.Live.Load())
		assert.Equal(t, 5, s.AttemptsOf(streamMethod))
		cancel()
		synctest.Wait()
		assert.Zero(t, s.Live.Load())
	})
}

func TestStreamEnd_contextAndTrailer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")), withTrailer(sending(nil, "m1", "m2"), "t", "2"))
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), bidiStream)
		_, has := peer.FromContext(cs.Context())
		assert.False(t, has, "which attempt counts is not known")
		assert.Nil(t, cs.Trailer())

		_, err := recvOne(cs)
		require.NoError(t, err)

		assert.Equal(t, 2, s.AttemptsOf(streamMethod), "neither has committed the call")
		assert.Equal(t, 2, retrybudget.AttemptFromContext(cs.Context()))
		_, has = peer.FromContext(cs.Context())
		assert.True(t, has)
		assert.Nil(t, cs.Trailer())
		_, err = recvAll(cs)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, []string{"2"}, cs.Trailer().Get("t"))
		assert.Equal(t, 2, retrybudget.AttemptFromContext(cs.Context()))
	})
}

func TestStreamEnd_contextOfAStreamWithoutMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")), failing(nil))
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), serverStream)
		sendAll(t, cs, "a")
		_, err := recvOne(cs)
		require.Equal(t, io.EOF, err)
		assert.Equal(t, 2, retrybudget.AttemptFromContext(cs.Context()))
		_, has := peer.FromContext(cs.Context())
		assert.True(t, has)
	})
}

// A stream that waits for the connection is one attempt, however long it takes;
// without, each failure to connect is one.
func TestStreamEnd_waitForReady(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithObserver(journal))
				listener, up := bufconn.Listen(1<<20), time.Now().Add(time.Minute)
				server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, ss grpc.ServerStream) error { return send(ss, "m") }))
				go func() { _ = server.Serve(listener) }() // until Stop
				defer server.Stop()
				dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					if time.Now().Before(up) {
						return nil, net.ErrClosed
					}
					return listener.DialContext(ctx)
				})
				cs, err := rpctest.New().Dial(t, append(r.DialOptions(), dial)...).NewStream(t.Context(), bidiStream, streamMethod, grpc.WaitForReady(wait))
				if !wait {
					assert.Equal(t, codes.Unavailable, status.Code(err))
					assert.ErrorIs(t, err, retrybudget.ErrAttemptsExhausted)
					assert.Len(t, journal.retries, 2)
					return
				}
				require.NoError(t, err)
				sendAll(t, cs, "a")
				_, err = recvAll(cs)
				assert.Equal(t, io.EOF, err)
				assert.Empty(t, journal.retries)
			})
		})
	}
}

// An attempt of a stream is expected to take as long as others took to their
// first message, however long they went on.
func TestStreamEnd_noTimeForAnotherAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := later(100*ms, func(ss grpc.ServerStream) error { _ = send(ss, "m"); return later(time.Second, failing(nil))(ss) })
		s := streamServer(t, slow)
		r := newRetrier(t, atOnce(3))
		cc := s.Dial(t, r.DialOptions()...)
		for range 3 {
			cs := open(t.Context(), t, cc, serverStream)
			sendAll(t, cs, "a")
			_, err := recvAll(cs)
			require.Equal(t, io.EOF, err)
		}
		s.Streams(streamMethod, later(60*ms, failing(unavailable("shard 7 down"))), slow)
		for _, test := range []struct {
			left     time.Duration
			attempts int
		}{{150 * ms, 1}, {170 * ms, 2}} {
			before := s.AttemptsOf(streamMethod)
			ctx, cancel := context.WithTimeout(withCallID(t, test.left.String()), test.left)
			cs := open(ctx, t, cc, serverStream)
			sendAll(t, cs, "a")
			_, err := recvOne(cs)
			assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod)-before)
			if test.attempts == 1 {
				assert.ErrorIs(t, err, retrybudget.ErrDeadline)
				assert.Equal(t, "shard 7 down", status.Convert(err).Message())
			} else {
				assert.NoError(t, err)
			}
			cancel()
		}
	})
}
