package retrybudget_test

import (
	"context"
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
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// What interceptors between the Retrier and the wire may do to streams.

func TestStreamInner_opensFail(t *testing.T) {
	t.Parallel()
	refusal := status.Error(codes.Unavailable, "breaker open")
	for _, test := range []struct {
		name   string
		errs   []error // of the opens, nil opens
		want   error
		opens  int
		reason retrybudget.Reason
	}{
		{"once", []error{refusal, nil}, nil, 2, retrybudget.NoReason},
		{"always", []error{refusal, refusal, refusal}, refusal, 3, retrybudget.ReasonMaxAttempts},
		{"not retryable", []error{status.Error(codes.NotFound, "x")}, status.Error(codes.NotFound, "x"), 1, retrybudget.ReasonNotRetryable},
		{"final", []error{retrybudget.Final(refusal)}, refusal, 1, retrybudget.ReasonNotRetryable},
		{"raw context error", []error{context.DeadlineExceeded}, context.DeadlineExceeded, 1, retrybudget.ReasonNotRetryable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, sending(nil, "m"))
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal), atOnce(3))
				opens := 0
				cc := s.Dial(t, withStreams(r, func(a streamOpened) (grpc.ClientStream, error) {
					opens++
					if err := test.errs[a.n-1]; err != nil {
						return nil, err
					}
					return a.open(a.ctx, a.opts...)
				})...)
				var ended []error

				cs, err := cc.NewStream(t.Context(), serverStream, streamMethod, grpc.OnFinish(func(err error) { ended = append(ended, err) }))

				if test.want == nil {
					require.NoError(t, err)
					sendAll(t, cs, "a")
					got, end := recvAll(cs)
					assert.Equal(t, io.EOF, end)
					assert.Equal(t, []string{"m"}, got)
				} else {
					assert.Nil(t, cs)
					assert.ErrorIs(t, err, test.want)
				}
				assert.Equal(t, test.opens, opens)
				assert.Equal(t, []error{err}, ended)
				assert.Equal(t, []retrybudget.Reason{test.reason}, journal.reasons())
				requireSettled(t, ledger)
			})
		})
	}
}

// A panic goes on to the application. What the call held is given back, whether
// or not the application survives it and calls again.
func TestStreamInner_panics(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		open, send, recv int // the attempt in which these panic
		call             func(cs grpc.ClientStream) error
	}{
		"in the first open":   {open: 1},
		"in the second open":  {open: 2, call: func(cs grpc.ClientStream) error { return cs.RecvMsg(&wrapperspb.StringValue{}) }},
		"opened by Header":    {open: 2, call: func(cs grpc.ClientStream) error { _, err := cs.Header(); return err }},
		"in SendMsg":          {send: 1, call: func(cs grpc.ClientStream) error { return cs.SendMsg(wrapperspb.String("b")) }},
		"in RecvMsg":          {recv: 1, call: func(cs grpc.ClientStream) error { return cs.RecvMsg(&wrapperspb.StringValue{}) }},
		"in a second RecvMsg": {recv: 2, call: func(cs grpc.ClientStream) error { return cs.RecvMsg(&wrapperspb.StringValue{}) }},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					// It fails after the message, or SendMsg might meet the failure.
					s := streamServer(t, reading(1, failing(unavailable("x"))))
					ledger := &budgetLedger{grants: -1}
					r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{
						Backoff: retrybudget.ConstantBackoff(0), Timeout: time.Hour, PerAttemptTimeout: time.Hour,
					}))
					on := false
					cc := s.Dial(t, withStreams(r, func(a streamOpened) (grpc.ClientStream, error) {
						if a.n == test.open {
							panic("open")
						}
						cs, err := a.open(a.ctx, a.opts...)
						tapped := &tap{ClientStream: cs}
						if a.n == test.send {
							tapped.send = func(m any, next func(any) error) error {
								if on {
									panic("send")
								}
								return next(m)
							}
						}
						if a.n == test.recv {
							tapped.recv = func(m any, next func(any) error) error {
								if on {
									panic("recv")
								}
								return next(m)
							}
						}
						return tapped, err
					})...)
					ctx, cancel := context.WithCancel(t.Context())
					parent := newCountingContext(ctx)
					var cs grpc.ClientStream
					if test.open == 1 {
						assert.Panics(t, func() { _, _ = cc.NewStream(parent, bidiStream, streamMethod) })
					} else {
						cs = open(parent, t, cc, bidiStream)
						sendOne(t, cs, "a")
						synctest.Wait()
						on = true
						assert.Panics(t, func() { _ = test.call(cs) })
						on = false
						if again {
							assert.NotPanics(t, func() { _ = test.call(cs) })
						}
					}
					cancel()
					parent.cancel()
					synctest.Wait()

					assert.Zero(t, r.ReplayBytes())
					requireSettled(t, ledger)
					assert.Zero(t, s.Live.Load())
				})
			})
		}
	}
}

// An inner stream may end early, without the server.
func TestStreamInner_endsByItself(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ended error
		opens int
	}{
		"OK":            {io.EOF, 1},
		"not retryable": {status.Error(codes.InvalidArgument, "bad answer"), 1},
		"retryable":     {unavailable("bad answer"), 3},
	} {
		for kind, desc := range streamKinds {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, withTrailer(hanging, "t", "1"))
					r := newRetrier(t, atOnce(3))
					opens := 0
					cc := s.Dial(t, tapped(r, func(n int, s *tap) {
						opens = n
						s.recv = func(any, func(any) error) error { return test.ended }
					})...)
					var header, trailer metadata.MD
					start := time.Now()
					cs := open(after(t, time.Hour), t, cc, desc, grpc.Header(&header), grpc.Trailer(&trailer))
					sendAll(t, cs, "a")

					err := cs.RecvMsg(&wrapperspb.StringValue{})

					assert.ErrorIs(t, err, test.ended)
					assert.Zero(t, time.Since(start))
					assert.Equal(t, test.opens, opens)
					synctest.Wait()
					assert.Zero(t, s.Live.Load())
					assert.Zero(t, r.ReplayBytes())
				})
			})
		}
	}
}

// The same while the server ends the stream too: nothing of the transport's is
// read while it is written.
func TestStreamInner_refusesAnswersWhileTheServerEnds(t *testing.T) {
	t.Parallel()
	s := streamServer(t, withTrailer(sending(nil, "m"), "t", "1"))
	r := newRetrier(t, atOnce(3))
	cc := s.Dial(t, tapped(r, func(_ int, s *tap) {
		s.recv = func(m any, next func(any) error) error {
			if err := next(m); err != nil {
				return err
			}
			return unavailable("not this one")
		}
	})...)
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var trailer metadata.MD
		cs := open(ctx, t, cc, bidiStream, grpc.Trailer(&trailer))
		_ = cs.SendMsg(wrapperspb.String("a")) // io.EOF when the server was faster
		err := cs.RecvMsg(&wrapperspb.StringValue{})
		require.Equal(t, "not this one", status.Convert(err).Message())
		cancel()
	}
	assert.Zero(t, r.ReplayBytes())
}
