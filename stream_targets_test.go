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
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// What the targets of grpc.Header, grpc.Trailer and grpc.Peer hold, when
// grpc.OnFinish runs, and what becomes of a stream that the application does not
// read to its end.

func TestStreamTargets_holdTheLastAttempts(t *testing.T) {
	t.Parallel()
	first := withHeader(withTrailer(failing(unavailable("x")), "t", "1", "t1", "1"), "h", "1", "h1", "1")
	for name, test := range map[string]struct {
		last func(grpc.ServerStream) error
		code codes.Code
	}{
		"OK":            {withHeader(withTrailer(sending(nil, "m"), "t", "2"), "h", "2"), codes.OK},
		"without any m": {withHeader(withTrailer(failing(nil), "t", "2"), "h", "2"), codes.OK},
		"failed":        {withHeader(withTrailer(failing(status.Error(codes.NotFound, "x")), "t", "2"), "h", "2"), codes.NotFound},
		"committed":     {withHeader(withTrailer(sending(unavailable("x"), "m"), "t", "2"), "h", "2"), codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, first, test.last)
				var header, header2, trailer metadata.MD
				var from peer.Peer
				finished := 0
				opts := []grpc.CallOption{
					grpc.Header(&header), grpc.Header(&header2), grpc.Trailer(&trailer), grpc.Peer(&from),
					grpc.OnFinish(func(error) { finished++; assert.Equal(t, []string{"2"}, trailer.Get("t")) }),
				}
				cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), bidiStream, opts...)
				sendOne(t, cs, "a")

				_, err := recvAll(cs)

				assert.Equal(t, test.code == codes.OK, err == io.EOF)
				assert.Equal(t, []string{"2"}, header.Get("h"))
				assert.Equal(t, header, header2)
				assert.Empty(t, header.Get("h1"))
				assert.Equal(t, []string{"2"}, trailer.Get("t"))
				assert.Empty(t, trailer.Get("t1"))
				assert.NotNil(t, from.Addr)
				assert.Equal(t, 1, finished)
			})
		})
	}
}

// grpc-go's own RecvMsg may return before it has written the targets and run
// OnFinish. Ours does not: the targets are filled by then.
func TestStreamTargets_whenOnFinishComesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, withHeader(hanging, "h", "1"))
		cc := s.Dial(t, withStreams(newRetrier(t), func(a streamOpened) (grpc.ClientStream, error) {
			return a.open(a.ctx, append([]grpc.CallOption{grpc.OnFinish(func(error) { <-time.After(time.Minute) })}, a.opts...)...)
		})...)
		ctx, cancel := context.WithCancel(t.Context())
		var header metadata.MD
		var from peer.Peer
		finished := 0
		cs := open(ctx, t, cc, bidiStream, grpc.Header(&header), grpc.Peer(&from), grpc.OnFinish(func(error) { finished++ }))
		synctest.Wait()
		cancel()
		synctest.Wait()

		_, err := recvOne(cs)

		require.Equal(t, codes.Canceled, status.Code(err))
		assert.Equal(t, []string{"1"}, header.Get("h"))
		assert.NotNil(t, from.Addr)
		assert.Equal(t, 1, finished)
		<-time.After(time.Minute) // until the late OnFinish has ended
	})
}

// From OnFinish the application may use its stream.
func TestStreamTargets_streamIsUsedInOnFinish(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler func(grpc.ServerStream) error
		cancel  bool
	}{
		"OK":        {withHeader(sending(nil, "m"), "h", "1"), false},
		"cancelled": {hanging, true},
		"failed":    {failing(unavailable("x")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handler)
				ctx, cancel := context.WithCancel(after(t, time.Hour))
				defer cancel()
				var cs grpc.ClientStream
				finished := 0
				cs = open(ctx, t, s.Dial(t, newRetrier(t).DialOptions()...), bidiStream, grpc.OnFinish(func(err error) {
					finished++
					_, _ = cs.Header()
					_ = cs.Trailer()
					_ = cs.Context()
					_ = cs.CloseSend()
					assert.Equal(t, io.EOF, cs.SendMsg(wrapperspb.String("a")))
					again := cs.RecvMsg(&wrapperspb.StringValue{})
					if err == nil {
						err = io.EOF
					}
					assert.Equal(t, err, again)
				}))
				if test.cancel {
					cancel()
				} else {
					_, _ = recvAll(cs)
				}
				synctest.Wait()
				assert.Equal(t, 1, finished)
			})
		})
	}
}

// However far the application got, its cancel ends the call once and for all,
// even if it never calls again.
func TestStreamTargets_abandonedByCancel(t *testing.T) {
	t.Parallel()
	never := []retrybudget.Option{idempotentAtOnce(1)}
	for name, test := range map[string]struct {
		handlers []func(grpc.ServerStream) error
		opts     []retrybudget.Option
		desc     *grpc.StreamDesc
		use      func(cs grpc.ClientStream)
		config   string
	}{
		"unused":                       {[]func(grpc.ServerStream) error{hanging}, nil, bidiStream, func(grpc.ClientStream) {}, ""},
		"the status is there":          {[]func(grpc.ServerStream) error{failing(unavailable("x"))}, nil, bidiStream, func(grpc.ClientStream) {}, ""},
		"an answer is there":           {[]func(grpc.ServerStream) error{sending(nil, "m")}, nil, bidiStream, func(grpc.ClientStream) {}, ""},
		"after Header":                 {[]func(grpc.ServerStream) error{withHeader(hanging, "k", "v")}, nil, bidiStream, func(cs grpc.ClientStream) { _, _ = cs.Header() }, ""},
		"Header saw the end":           {[]func(grpc.ServerStream) error{failing(nil)}, nil, bidiStream, func(cs grpc.ClientStream) { _, _ = cs.Header() }, ""},
		"Header saw the end, disabled": {[]func(grpc.ServerStream) error{failing(nil)}, never, bidiStream, func(cs grpc.ClientStream) { _, _ = cs.Header() }, ""},
		"Header saw a failure, disabled": {
			[]func(grpc.ServerStream) error{failing(unavailable("x"))}, never, bidiStream, func(cs grpc.ClientStream) { _, _ = cs.Header() }, "",
		},
		"after a message": {[]func(grpc.ServerStream) error{sending(nil, "m", "n")}, nil, serverStream, func(cs grpc.ClientStream) { _, _ = recvOne(cs) }, ""},
		"after io.EOF with a pending answer": {
			[]func(grpc.ServerStream) error{sending(nil, "m")}, nil, clientStream, sendSome, "",
		},
		"after io.EOF with pending messages": {
			[]func(grpc.ServerStream) error{sending(nil, "m", "n")}, nil, bidiStream, sendSome, "",
		},
		"after an attempt timeout": {
			[]func(grpc.ServerStream) error{hanging}, []retrybudget.Option{perTry(3)}, bidiStream, func(grpc.ClientStream) { <-time.After(time.Minute) }, "",
		},
		"after an attempt timeout, disabled": {
			[]func(grpc.ServerStream) error{hanging}, []retrybudget.Option{perTry(1)}, bidiStream, func(grpc.ClientStream) { <-time.After(time.Minute) }, "",
		},
		"after the timeout of a service config": {
			[]func(grpc.ServerStream) error{hanging},
			nil, bidiStream, func(grpc.ClientStream) { <-time.After(time.Minute) },
			`{"methodConfig":[{"name":[{}],"timeout":"1s"}]}`,
		},
		"after its timeout, with an answer": {
			[]func(grpc.ServerStream) error{func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) }},
			nil, bidiStream,
			func(cs grpc.ClientStream) { _, _ = recvOne(cs); <-time.After(time.Minute) },
			`{"methodConfig":[{"name":[{}],"timeout":"1s"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handlers...)
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, append([]retrybudget.Option{ledger.option(), retrybudget.WithObserver(journal)}, test.opts...)...)
				options := r.DialOptions()
				if test.config != "" {
					options = append(options, grpc.WithDefaultServiceConfig(test.config))
				}
				cc := s.Dial(t, options...)
				require.NoError(t, cc.Invoke(t.Context(), "/other.Service/Method", wrapperspb.String(""), &wrapperspb.StringValue{}), "so that the connection is there")
				before := len(journal.reasons())
				ctx, cancel := context.WithCancel(t.Context())
				finished := 0
				cs := open(ctx, t, cc, test.desc, grpc.OnFinish(func(error) { finished++ }))
				sendOne(t, cs, "a")
				synctest.Wait()

				test.use(cs)
				cancel()
				synctest.Wait()

				assert.Equal(t, 1, finished, "OnFinish")
				assert.Len(t, journal.reasons(), before+1, "CallEnded")
				assert.Zero(t, r.ReplayBytes())
				assert.Zero(t, s.Live.Load())
				requireSettled(t, ledger)
			})
		})
	}
}

// sendSome sends until the stream does not take it.
func sendSome(cs grpc.ClientStream) {
	for range 10 {
		if cs.SendMsg(wrapperspb.String("a")) != nil {
			return
		}
		synctest.Wait()
	}
}

// The cancel comes while a message is on its way to the application, which then
// never calls again.
func TestStreamTargets_cancelledWhileAMessageIsDelivered(t *testing.T) {
	t.Parallel()
	for kind, desc := range map[string]*grpc.StreamDesc{"server": serverStream, "bidi": bidiStream} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) })
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cc := s.Dial(t, tapped(r, func(_ int, s *tap) {
					s.recv = func(m any, next func(any) error) error {
						err := next(m)
						cancel()
						<-time.After(time.Second)
						return err
					}
				})...)
				finished := 0
				cs := open(ctx, t, cc, desc, grpc.OnFinish(func(error) { finished++ }))
				sendOne(t, cs, "a")

				got, err := recvOne(cs)
				synctest.Wait()

				assert.NoError(t, err)
				assert.Equal(t, "m", got)
				assert.Equal(t, 1, finished)
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonCanceled}, journal.reasons())
				assert.Equal(t, []string{"success"}, ledger.read())
				assert.Zero(t, r.ReplayBytes())
				assert.Zero(t, s.Live.Load())
			})
		})
	}
}
