package retrybudget_test

import (
	"cmp"
	"context"
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
	"google.golang.org/grpc/encoding/gzip" // registers itself
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// localError is one error of grpc-go's own that no retry can help, and how the
// real library is made to produce it.
type localError struct {
	name   string
	prefix string
	code   codes.Code
	// server and dial configure both ends, call the call.
	server []grpc.ServerOption
	dial   []grpc.DialOption
	call   []grpc.CallOption
	step   rpctest.Step
	// request and reply replace the usual messages.
	request any
	reply   any
	// bytes is the size of the usual request, which the server echoes; at least
	// 1, because grpc-go does not compress an empty message.
	bytes    int
	metadata metadata.MD
	attempts int // that reach the server's handler
}

// gzipped answers under the name gzip. A server whose compressor has that name
// uses it.
func gzipped(next rpctest.Step) rpctest.Step {
	return func(ctx context.Context, stream grpc.ServerStream) error {
		if err := grpc.SetSendCompressor(ctx, gzip.Name); err != nil {
			return err
		}
		return next(ctx, stream)
	}
}

// brokenCompressor writes what it is told to instead of the message.
type brokenCompressor struct {
	writes []byte
	err    error
	name   string // gzip when empty
}

func (c brokenCompressor) Do(w io.Writer, _ []byte) error {
	if c.err != nil {
		return c.err
	}
	_, err := w.Write(c.writes)
	return err
}

func (c brokenCompressor) Type() string { return cmp.Or(c.name, gzip.Name) }

// brokenDecompressor fails.
type brokenDecompressor struct{}

func (brokenDecompressor) Do(io.Reader) ([]byte, error) { return nil, errors.New("broken") }
func (brokenDecompressor) Type() string                 { return gzip.Name }

// gzipHeader is the start of a gzip stream, with nothing behind it.
func gzipHeader() []byte { return []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff} }

//nolint:staticcheck // deprecated, but the only way to put a broken stream under a registered name
func compressesWith(c grpc.Compressor) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.RPCCompressor(c)}
}

//nolint:staticcheck // deprecated, but the only way to make compressing fail
func compresses(c grpc.Compressor) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithCompressor(c)}
}

//nolint:staticcheck // deprecated, but programs use it, and it has messages of its own
func decompresses(d grpc.Decompressor) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDecompressor(d)}
}

func localErrors() []localError {
	const exhausted, internal = codes.ResourceExhausted, codes.Internal
	gunzip := decompresses(grpc.NewGZIPDecompressor()) //nolint:staticcheck // see decompresses
	return []localError{
		{
			name: "request over the client's send limit", prefix: "trying to send message larger than max", code: exhausted,
			bytes: 10 << 10, call: []grpc.CallOption{grpc.MaxCallSendMsgSize(1 << 10)},
		},
		{
			name: "answer over the server's send limit", prefix: "trying to send message larger than max", code: exhausted,
			bytes: 10 << 10, server: []grpc.ServerOption{grpc.MaxSendMsgSize(1 << 10)}, attempts: 1,
		},
		{
			name: "answer over the client's receive limit", prefix: "grpc: received message larger than max", code: exhausted,
			bytes: 10 << 10, call: []grpc.CallOption{grpc.MaxCallRecvMsgSize(1 << 10)}, attempts: 1,
		},
		{
			name: "request over the server's receive limit", prefix: "grpc: received message larger than max", code: exhausted,
			bytes: 10 << 10, server: []grpc.ServerOption{grpc.MaxRecvMsgSize(1 << 10)},
		},
		{
			name: "answer over the limit, decompressor of the dial option", prefix: "grpc: message after decompression larger than max", code: exhausted,
			bytes: 10 << 10, step: gzipped(rpctest.OK()), dial: gunzip, call: []grpc.CallOption{grpc.MaxCallRecvMsgSize(1 << 10)}, attempts: 1,
		},
		{
			name: "answer over the limit, registered compressor", prefix: "grpc: received message after decompression larger than max", code: exhausted,
			bytes: 10 << 10, step: gzipped(rpctest.OK()), call: []grpc.CallOption{grpc.MaxCallRecvMsgSize(1 << 10)}, attempts: 1,
		},
		{name: "request that is no message", prefix: "grpc: error while marshaling", code: internal, request: "text"},
		{
			name: "compressor that fails", prefix: "grpc: error while compressing", code: internal,
			dial: compresses(brokenCompressor{err: errors.New("broken")}),
		},
		{
			name: "reply that is no message", prefix: "grpc: failed to unmarshal the received message", code: internal,
			reply: new(string), attempts: 1,
		},
		{
			name: "decompressor of the dial option that fails", prefix: "grpc: failed to decompress the received message", code: internal,
			step: gzipped(rpctest.OK()), dial: decompresses(brokenDecompressor{}), attempts: 1,
		},
		{
			name: "answer that is not compressed as it says", prefix: "grpc: failed to decompress the message", code: internal,
			server: compressesWith(brokenCompressor{writes: []byte("this is no gzip stream")}), attempts: 1,
		},
		{
			name: "answer that ends too early", prefix: "grpc: failed to read decompressed data", code: internal,
			server: compressesWith(brokenCompressor{writes: gzipHeader()}), attempts: 1,
		},
		{
			name: "compressor that is not there", prefix: "grpc: Compressor is not installed for requested grpc-encoding", code: internal,
			call: []grpc.CallOption{grpc.UseCompressor("nowhere")},
		},
		{
			name: "answer whose compressor is not there", prefix: "grpc: Decompressor is not installed for grpc-encoding", code: internal,
			server: compressesWith(brokenCompressor{name: "nowhere"}), attempts: 1,
		},
		{
			name: "codec that is not there", prefix: "no codec registered for content-subtype", code: internal,
			call: []grpc.CallOption{grpc.CallContentSubtype("nowhere")},
		},
		{
			name: "metadata key that is none", prefix: "header key ", code: internal,
			metadata: metadata.MD{"Upper": []string{"x"}},
		},
		{
			name: "metadata value that is none", prefix: "header key ", code: internal,
			metadata: metadata.Pairs("key", "\n"),
		},
		{
			name: "metadata over the server's limit", prefix: "header list size to send violates the maximum size", code: internal,
			metadata: metadata.Pairs("padding", strings.Repeat("x", 10<<10)), server: []grpc.ServerOption{grpc.MaxHeaderListSize(1 << 10)},
		},
	}
}

// invoke makes the call that is to fail.
func (e localError) invoke(t *testing.T, cc *grpc.ClientConn) error {
	t.Helper()
	request, reply := e.request, e.reply
	if request == nil {
		request = wrapperspb.String(strings.Repeat("x", max(e.bytes, 1)))
	}
	if reply == nil {
		reply = new(wrapperspb.StringValue)
	}
	return cc.Invoke(metadata.NewOutgoingContext(t.Context(), e.metadata), rpctest.Method, request, reply, e.call...)
}

func TestLocalErrors_areNotRetried(t *testing.T) {
	t.Parallel()
	always := func(retrybudget.CallInfo, error) retrybudget.Verdict { return retrybudget.Retry }
	for _, test := range localErrors() {
		for name, opt := range map[string]retrybudget.Option{
			"list":       retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 5, RetryableCodes: []codes.Code{codes.ResourceExhausted, codes.Internal}}),
			"classifier": retrybudget.WithClassifier(always),
		} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := rpctest.New()
					if test.step != nil {
						s.Script(rpctest.Method, test.step)
					}
					ledger := &budgetLedger{grants: -1}
					var inner error
					sent := 0
					opts := with(newRetrier(t, opt, ledger.option()), func(a attemptSeen) error {
						sent++
						inner = a.send(a.ctx)
						return inner
					})
					cc := s.Start(t, test.server...).Dial(t, append(opts, test.dial...)...)
					start := time.Now()

					err := test.invoke(t, cc)

					require.Error(t, err)
					assert.Equal(t, test.code, status.Code(err))
					assert.True(t, strings.HasPrefix(status.Convert(err).Message(), test.prefix), "%v", err)
					assert.Equal(t, 1, sent)
					assert.Same(t, inner, err)
					assert.Equal(t, test.attempts, s.Attempts(""))
					assert.Zero(t, time.Since(start))
					assert.Empty(t, ledger.read(), "nothing was asked of the budget")
				})
			})
		}
	}
}

// Every text the library knows is one that the tests above saw.
func TestLocalErrors_allTextsAreProduced(t *testing.T) {
	t.Parallel()
	var produced []string
	for _, e := range localErrors() {
		produced = append(produced, e.prefix)
	}
	assert.Subset(t, produced, retrybudget.HopelessPrefixes())
}

// The same codes with a server's own text are passing trouble.
func TestLocalErrors_sameCodeWithAnotherTextIsRetried(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.ResourceExhausted, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Fail(code, "queue full: trying to send message larger than max"))
				r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{RetryableCodes: []codes.Code{code}}))

				require.Error(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

				assert.Equal(t, 3, s.Attempts(""))
			})
		})
	}
}
