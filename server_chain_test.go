package retrybudget_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// chain is A > B > C > D, D being down. A is the caller; B and C are services
// that call the next one with the context of their handler.
type chain struct {
	a       *grpc.ClientConn // from A to B
	b, c    *service
	d       *rpctest.Server
	budgets []*retrybudget.TokenBucket // of A, B and C; nil when unlimited
}

// newChain starts one. native puts a client without this library in A's place.
func newChain(t *testing.T, tokens int, native bool, server ...grpc.ServerOption) *chain {
	t.Helper()
	ch := &chain{d: rpctest.New()}
	ch.d.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "down"))
	dial := func() []grpc.DialOption {
		if tokens == 0 {
			return newRetrier(t).DialOptions()
		}
		bucket, option := bucketed(t, retrybudget.TokenBucketConfig{Capacity: tokens, Initial: tokens})
		ch.budgets = append(ch.budgets, bucket)
		return newRetrier(t, option).DialOptions()
	}
	onTo := func(cc *grpc.ClientConn) func(context.Context) error {
		return func(ctx context.Context) error { return rpctest.Call(ctx, cc) }
	}
	a := []grpc.DialOption{grpc.WithDefaultServiceConfig(nativePolicy)}
	if !native {
		a = dial()
	}
	b, c := dial(), dial()
	ch.c = serve(t, onTo(ch.d.Dial(t, c...)), server...)
	ch.b = serve(t, onTo(ch.c.dial(t, b...)), server...)
	ch.a = ch.b.dial(t, a...)
	return ch
}

// seen counts the attempts that B, C and D got.
func (ch *chain) seen() []int {
	return []int{ch.b.attempts(), ch.c.attempts(), ch.d.Attempts("")}
}

// left returns the whole tokens that are left at each hop.
func (ch *chain) left() (tokens []int64) {
	for _, b := range ch.budgets {
		tokens = append(tokens, tokensIn(b)/1000)
	}
	return tokens
}

// One user call, three attempts at each of three edges: what the budgets, and
// then the hint, make of it. The calls come one after the other, so that the
// numbers are exact.
func TestChain_multiplication(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		calls  int
		tokens int // at each hop, 0 for unlimited
		native bool
		server []grpc.ServerOption
		seen   []int // attempts at B, C and D
		left   []int64
	}{
		{
			name: "unlimited", calls: 20,
			seen: []int{20 * 3, 20 * 9, 20 * 27},
		},
		{
			name: "token buckets", calls: 1000, tokens: 10,
			seen: []int{1010, 1020, 1030}, left: []int64{0, 0, 0},
		},
		{
			// Nobody knows of a hint until C's tokens are gone: that is in A's
			// third attempt of call 1. From then on every failure is hinted, and
			// the next two retries of A and the one of B cost four tokens.
			name: "token buckets and hint", calls: 1000, tokens: 10, server: guarded(),
			seen: []int{1003, 1008, 1018}, left: []int64{1, 2, 0},
		},
		{
			// C's tokens are gone in A's second attempt, and its veto ends that
			// call at B and, as B passes it on, at A.
			name: "token buckets and pushback", calls: 1000, tokens: 10, server: guarded(retrybudget.WithPushbackHint()),
			seen: []int{1001, 1005, 1015}, left: []int64{9, 6, 0},
		},
		{
			name: "native client, token buckets and pushback", calls: 1000, tokens: 10, native: true, server: guarded(retrybudget.WithPushbackHint()),
			seen: []int{1001, 1005, 1015}, left: []int64{6, 0},
		},
		{
			// The control: it does not know the hint.
			name: "native client, token buckets and hint", calls: 100, tokens: 10, native: true, server: guarded(),
			seen: []int{300, 305, 315}, left: []int64{2, 0},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ch := newChain(t, tt.tokens, tt.native, tt.server...)
				for range tt.calls {
					err := rpctest.Call(t.Context(), ch.a)
					require.Equal(t, codes.Unavailable, status.Code(err))
					require.Contains(t, status.Convert(err).Message(), "down", "the deepest error comes through")
				}
				assert.Equal(t, tt.seen, ch.seen())
				assert.Equal(t, tt.left, ch.left())
			})
		})
	}
}

// With calls at the same time the hint comes sooner or later, but never does a
// hop send more than its calls and its tokens.
func TestChain_multiplicationOfConcurrentCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server []grpc.ServerOption
		fewer  bool // than the sum of all tokens
	}{
		{"token buckets", nil, false},
		{"hint", guarded(), true},
		{"pushback", guarded(retrybudget.WithPushbackHint()), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ch := newChain(t, 10, false, tt.server...)
				parallel(20, func(int) {
					for range 50 {
						assert.Equal(t, codes.Unavailable, status.Code(rpctest.Call(t.Context(), ch.a)))
					}
				})
				seen := ch.seen()
				for hop, most := range []int{1010, 1020, 1030} {
					assert.GreaterOrEqual(t, seen[hop], 1000)
					assert.LessOrEqual(t, seen[hop], most)
				}
				if !tt.fewer {
					assert.Equal(t, []int{1010, 1020, 1030}, seen)
					return
				}
				assert.Less(t, seen[2], 1030)
			})
		})
	}
}
