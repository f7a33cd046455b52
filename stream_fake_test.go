package retrybudget_test

import (
	"context"
	"errors"
	"io"
	"sync"
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
)

// Streams that are not grpc-go's, or that grpc-go knows less of.

// An interceptor further in may leave call options out, as a proxy does that
// opens a stream of its own.
func TestStreamFake_dropsCallOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handlers []func(grpc.ServerStream) error
		code     codes.Code
	}{
		"OK":      {[]func(grpc.ServerStream) error{sending(nil, "m")}, codes.OK},
		"retried": {[]func(grpc.ServerStream) error{failing(unavailable("x")), sending(nil, "m")}, codes.OK},
		"failed":  {[]func(grpc.ServerStream) error{failing(status.Error(codes.NotFound, "x"))}, codes.NotFound},
		"cut off": {[]func(grpc.ServerStream) error{hanging}, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handlers...)
				r := newRetrier(t, atOnce(3))
				cc := s.Dial(t, withStreams(r, func(a streamOpened) (grpc.ClientStream, error) { return a.open(a.ctx) })...)
				finished := 0
				start := time.Now()
				cs := open(after(t, time.Second), t, cc, bidiStream, grpc.OnFinish(func(error) { finished++ }))
				sendAll(t, cs, "a")

				_, err := recvAll(cs)

				if test.code == codes.OK {
					assert.Equal(t, io.EOF, err)
				} else {
					assert.Equal(t, test.code, status.Code(err))
				}
				assert.LessOrEqual(t, time.Since(start), time.Second)
				assert.Equal(t, 1, finished)
				assert.Zero(t, r.ReplayBytes())
				synctest.Wait()
				assert.Zero(t, s.Live.Load())
			})
		})
	}
}

// mock is a stream of a test of the application's: it has what the test needs
// and nothing else.
type mock struct {
	grpc.ClientStream
	answers int
}

func (m *mock) SendMsg(any) error { return nil }
func (m *mock) CloseSend() error  { return nil }

func (m *mock) RecvMsg(any) error {
	if m.answers--; m.answers < 0 {
		return io.EOF
	}
	return nil
}

func TestStreamFake_mockWithoutWhatIsNotNeeded(t *testing.T) {
	t.Parallel()
	for kind, desc := range streamKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			streamer := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				return &mock{answers: 1}, nil
			}
			cs, err := newRetrier(t).StreamClientInterceptor()(t.Context(), desc, nil, streamMethod, streamer)
			require.NoError(t, err)
			sendAll(t, cs, "a")
			_, err = recvOne(cs)
			require.NoError(t, err)
			_, err = recvOne(cs)
			assert.Equal(t, io.EOF, err)
		})
	}
}

// fake is a stream without grpc-go: it knows no options and never says that it
// is over.
type fake struct {
	ctx     context.Context //nolint:containedctx // this is a stream
	trailer metadata.MD
	answer  func(sent []any) error // asked at the first RecvMsg
	want    chan struct{}          // what RecvMsg waits for, closed by the second SendMsg; nil for nothing

	mu   sync.Mutex
	sent []any
	done bool
}

func (f *fake) Header() (metadata.MD, error) { return metadata.Pairs("h", "1"), nil }
func (f *fake) Trailer() metadata.MD         { return f.trailer }
func (f *fake) CloseSend() error             { return nil }
func (f *fake) Context() context.Context     { return f.ctx }

func (f *fake) SendMsg(m any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return io.EOF
	}
	if f.sent = append(f.sent, m); len(f.sent) == 2 && f.want != nil {
		close(f.want)
	}
	return nil
}

func (f *fake) RecvMsg(m any) error {
	if f.want != nil {
		<-f.want // as a server would: the replay runs beside the receiver
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return io.EOF
	}
	if err := f.answer(f.sent); err != nil {
		return err
	}
	f.done = true
	m.(*wrapperspb.StringValue).Value = "m" //nolint:errcheck,forcetypeassert // all that is received here
	return nil
}

// Without a connection, with streams that are not grpc-go's.
func TestStreamFake_withoutAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &budgetLedger{grants: -1}
		r := newRetrier(t, ledger.option(), atOnce(3))
		var attempts []*fake
		streamer := func(ctx context.Context, _ *grpc.StreamDesc, cc *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			assert.Nil(t, cc)
			f := &fake{ctx: ctx, trailer: metadata.Pairs("grpc-retry-pushback-ms", "700"), want: make(chan struct{})}
			n := len(attempts)
			f.answer = func(sent []any) error {
				if n < 2 {
					return unavailable("x")
				}
				if len(sent) != 2 {
					return errors.New("not replayed")
				}
				return nil
			}
			attempts = append(attempts, f)
			return f, nil
		}
		var trailer metadata.MD
		finished := 0
		start := time.Now()
		cs, err := r.StreamClientInterceptor()(t.Context(), clientStream, nil, streamMethod, streamer,
			grpc.Trailer(&trailer), grpc.OnFinish(func(error) { finished++ }))
		require.NoError(t, err)
		sendOne(t, cs, "a")
		require.NoError(t, cs.SendMsg(wrapperspb.String("b")))

		got, err := recvAll(cs)

		assert.Equal(t, io.EOF, err)
		assert.Equal(t, []string{"m"}, got)
		assert.Len(t, attempts, 3)
		assert.Equal(t, 1400*ms, time.Since(start), "the pushback of the fakes' trailers")
		assert.Equal(t, attempts[0].trailer, trailer)
		assert.Equal(t, 1, finished)
		assert.Zero(t, r.ReplayBytes())
		for _, f := range attempts {
			assert.Error(t, f.ctx.Err(), "every attempt's context is released")
		}
		requireSettled(t, ledger)
	})
}

func TestStreamFake_readAfterCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t)
		streamer := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			return &fake{ctx: ctx, answer: func([]any) error { return ctx.Err() }}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		cs, err := r.StreamClientInterceptor()(ctx, bidiStream, nil, streamMethod, streamer)
		require.NoError(t, err)
		sendOne(t, cs, "a")
		assert.Positive(t, r.ReplayBytes())
		cancel()
		err = cs.RecvMsg(&wrapperspb.StringValue{})
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, r.ReplayBytes())
	})
}
