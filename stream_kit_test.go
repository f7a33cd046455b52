package retrybudget_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// streamKinds are the kinds of streams.
var streamKinds = map[string]*grpc.StreamDesc{"server": serverStream, "client": clientStream, "bidi": bidiStream}

// open opens a stream of streamMethod.
func open(ctx context.Context, t testing.TB, cc *grpc.ClientConn, desc *grpc.StreamDesc, opts ...grpc.CallOption) grpc.ClientStream {
	t.Helper()
	cs, err := cc.NewStream(ctx, desc, streamMethod, opts...)
	require.NoError(t, err)
	return cs
}

// sendOne sends a message. The stream may have ended already: then SendMsg says
// io.EOF, and RecvMsg the status.
func sendOne(t testing.TB, cs grpc.ClientStream, text string) {
	t.Helper()
	if err := cs.SendMsg(wrapperspb.String(text)); err != io.EOF {
		require.NoError(t, err)
	}
}

// sendAll sends texts, as sendOne, and half-closes.
func sendAll(t testing.TB, cs grpc.ClientStream, texts ...string) {
	t.Helper()
	for _, text := range texts {
		sendOne(t, cs, text)
	}
	require.NoError(t, cs.CloseSend())
}

// recvOne receives one message.
func recvOne(cs interface{ RecvMsg(any) error }) (string, error) {
	var m wrapperspb.StringValue
	err := cs.RecvMsg(&m)
	return m.GetValue(), err
}

// Handlers of a streaming server.

// failing fails at once.
func failing(err error) func(grpc.ServerStream) error {
	return func(grpc.ServerStream) error { return err }
}

// hanging ends when the client gives up.
func hanging(ss grpc.ServerStream) error {
	<-ss.Context().Done()
	return ss.Context().Err()
}

// sending sends texts and ends with err.
func sending(err error, texts ...string) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		if failed := send(ss, texts...); failed != nil {
			return failed
		}
		return err
	}
}

// reading receives n messages and ends as next does.
func reading(n int, next func(grpc.ServerStream) error) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		for range n {
			if _, err := recv(ss); err != nil {
				return err
			}
		}
		return next(ss)
	}
}

// collecting receives until the half-close and answers with all of it in one
// message.
func collecting(ss grpc.ServerStream) error {
	all, err := recvAll(ss)
	if err != io.EOF {
		return err
	}
	text := ""
	for _, s := range all {
		text += s
	}
	return send(ss, text)
}

// echoing answers each message with itself.
func echoing(ss grpc.ServerStream) error {
	for {
		text, err := recv(ss)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := send(ss, text); err != nil {
			return err
		}
	}
}

// withHeader sends a response header first.
func withHeader(next func(grpc.ServerStream) error, kv ...string) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		if err := ss.SendHeader(metadata.Pairs(kv...)); err != nil {
			return err
		}
		return next(ss)
	}
}

// withTrailer sets a trailer first.
func withTrailer(next func(grpc.ServerStream) error, kv ...string) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		ss.SetTrailer(metadata.Pairs(kv...))
		return next(ss)
	}
}

// later lets time pass first, or ends when the client gives up.
func later(d time.Duration, next func(grpc.ServerStream) error) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		select {
		case <-time.After(d):
			return next(ss)
		case <-ss.Context().Done():
			return ss.Context().Err()
		}
	}
}

// idempotentAtOnce is atOnce for an idempotent method.
func idempotentAtOnce(n int) retrybudget.Option {
	return retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: n, Backoff: retrybudget.ConstantBackoff(0), Idempotency: retrybudget.Idempotent})
}

// tap is a stream whose calls a test can change. A nil function passes on.
type tap struct {
	grpc.ClientStream
	send func(m any, next func(any) error) error
	recv func(m any, next func(any) error) error
}

func (s *tap) SendMsg(m any) error {
	if s.send == nil {
		return s.ClientStream.SendMsg(m)
	}
	return s.send(m, s.ClientStream.SendMsg)
}

func (s *tap) RecvMsg(m any) error {
	if s.recv == nil {
		return s.ClientStream.RecvMsg(m)
	}
	return s.recv(m, s.ClientStream.RecvMsg)
}

// streamOpened is an attempt of a stream as an interceptor between the Retrier
// and the wire sees it.
type streamOpened struct {
	ctx  context.Context
	n    int // counts from 1
	opts []grpc.CallOption
	open func(ctx context.Context, opts ...grpc.CallOption) (grpc.ClientStream, error)
}

// withStreams returns the dial options of r and, closer to the wire, an
// interceptor that opens each attempt by f.
func withStreams(r *retrybudget.Retrier, f func(a streamOpened) (grpc.ClientStream, error)) []grpc.DialOption {
	var mu sync.Mutex
	n := 0
	inner := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		mu.Lock()
		n++
		a := streamOpened{ctx: ctx, n: n, opts: opts}
		mu.Unlock()
		a.open = func(ctx context.Context, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(ctx, desc, cc, method, opts...)
		}
		return f(a)
	}
	return append(r.DialOptions(), grpc.WithChainStreamInterceptor(inner))
}

// tapped wraps each attempt's stream by f.
func tapped(r *retrybudget.Retrier, f func(n int, s *tap)) []grpc.DialOption {
	return withStreams(r, func(a streamOpened) (grpc.ClientStream, error) {
		cs, err := a.open(a.ctx, a.opts...)
		if err != nil {
			return nil, err
		}
		s := &tap{ClientStream: cs}
		f(a.n, s)
		return s, nil
	})
}

// note is a message of the codec note: not a protobuf message. Its decoder, like
// encoding/json's, adds to what is there.
type note struct {
	A string `json:",omitempty"`
	B string `json:",omitempty"`
	// Odd messages can be encoded but not decoded.
	Odd bool `json:",omitempty"`
}

// Reset makes n empty, as generated messages can be made.
func (n *note) Reset() { *n = note{} }

// noteCodec is an older codec for notes, registered under the subtype "note".
type noteCodec struct{}

func (noteCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (noteCodec) Unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	if n, ok := v.(*note); ok && n.Odd {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (noteCodec) Name() string   { return "note" }
func (noteCodec) String() string { return "note" }

// noteSubtype is registered here because codecs must be before the first call.
var noteSubtype = func() string {
	encoding.RegisterCodec(noteCodec{})
	return noteCodec{}.Name()
}()

// withCallID makes the calls of a context one logical call to the server.
func withCallID(t testing.TB, id string) context.Context {
	t.Helper()
	return rpctest.WithCallID(t.Context(), id)
}

// callIDOf returns the logical call that an attempt belongs to.
func callIDOf(ss grpc.ServerStream) string {
	return strings.Join(metadata.ValueFromIncomingContext(ss.Context(), rpctest.CallID), "")
}

// requireSettled checks that every granted retry was settled exactly once.
func requireSettled(t *testing.T, b *budgetLedger) {
	t.Helper()
	open := 0
	for _, line := range b.read() {
		switch verb, _, _ := strings.Cut(line, " "); verb {
		case "grant":
			open++
		case "settle":
			open--
		}
		require.True(t, open == 0 || open == 1, "%v", b.read())
	}
	require.Zero(t, open, "%v", b.read())
}
