package retrybudget_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// An interceptor further in may add options of its own for two attempts at once,
// as one that hedges does: append must not write where the other one's are.
func TestCallBreak_optionsHaveNoSpareRoom(t *testing.T) {
	t.Parallel()
	peerOf := func(opts []grpc.CallOption) *peer.Peer {
		last, _ := opts[len(opts)-1].(grpc.PeerCallOption)
		return last.PeerAddr
	}
	for n := range 5 {
		opts := make([]grpc.CallOption, n)
		for i := range opts {
			opts[i] = grpc.WaitForReady(true)
		}
		fail := func(pass []grpc.CallOption) error {
			var a, b peer.Peer
			first, second := append(pass, grpc.Peer(&a)), append(pass, grpc.Peer(&b)) //nolint:gocritic // as hedging does
			assert.Same(t, &a, peerOf(first), "%d options", n)
			assert.Same(t, &b, peerOf(second), "%d options", n)
			return unavailable("x")
		}
		r := newRetrier(t, atOnce(2))
		assert.Error(t, r.UnaryClientInterceptor()(t.Context(), "/a/a", nil, nil, nil,
			func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, pass ...grpc.CallOption) error {
				return fail(pass)
			}, opts...))
		_, err := r.StreamClientInterceptor()(t.Context(), bidiStream, nil, "/a/a",
			func(_ context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, pass ...grpc.CallOption) (grpc.ClientStream, error) {
				return nil, fail(pass)
			}, opts...)
		assert.Error(t, err)
	}
}

// endings is an observer that is told the end of calls.
type endings struct {
	retrybudget.NopObserver
	f func(retrybudget.CallEvent)
}

func (o endings) CallEnded(e retrybudget.CallEvent) { o.f(e) }

// attemptsIn returns the numbers of attempts, whose errors must be their own.
func attemptsIn(t *testing.T, records []retrybudget.AttemptRecord) (all []int) {
	t.Helper()
	for _, a := range records {
		assert.Equal(t, fmt.Sprint(a.Attempt), status.Convert(a.Err).Message())
		all = append(all, a.Attempt)
	}
	return all
}

// The first 15 and the last 15 failures, of calls of every length, also when an
// observer appends to what it is given.
func TestCallBreak_history(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 65; n++ {
		var earlier []int
		r := newRetrier(t, atOnce(n), retrybudget.WithObserver(endings{f: func(e retrybudget.CallEvent) {
			earlier = attemptsIn(t, e.Earlier)
			_ = append(e.Earlier, retrybudget.AttemptRecord{Attempt: -1})
			assert.Equal(t, []int{n, n}, []int{e.Last.Attempt, e.Call.Attempt})
		}}))
		sent := 0
		err := r.UnaryClientInterceptor()(t.Context(), "/a/a", nil, nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				sent++
				return unavailable(fmt.Sprint(sent))
			})
		require.Equal(t, n, sent)
		var want []int
		for i := 1; i <= n; i++ {
			if i <= 15 || i > n-15 {
				want = append(want, i)
			}
		}
		var e *retrybudget.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, want, attemptsIn(t, e.History))
		assert.Equal(t, want[:len(want)-1], earlier)
	}
}

// However the caller put the attempt header there, a retry replaces it.
func TestCallBreak_callersOwnAttemptHeader(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(context.Context) context.Context{
		"none": func(ctx context.Context) context.Context { return ctx },
		"new": func(ctx context.Context) context.Context {
			return metadata.NewOutgoingContext(ctx, metadata.MD{attemptHeader: {"7"}})
		},
		"without a value": func(ctx context.Context) context.Context {
			return metadata.NewOutgoingContext(ctx, metadata.MD{attemptHeader: {}})
		},
		"appended in upper case": func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(ctx, "Grpc-Previous-RPC-Attempts", "7")
		},
		"both": func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(metadata.NewOutgoingContext(ctx, metadata.MD{attemptHeader: {"5", "6"}}), "Grpc-Previous-RPC-Attempts", "7")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, failing(unavailable("x")), failing(unavailable("x")), sending(nil, "m"))
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
				cc := s.Dial(t, newRetrier(t, atOnce(3)).DialOptions()...)
				ctx := with(t.Context())
				require.NoError(t, rpctest.Call(ctx, cc))
				cs := open(ctx, t, cc, serverStream)
				sendAll(t, cs, "a")
				_, err := recvOne(cs)
				require.NoError(t, err)
				for _, method := range []string{rpctest.Method, streamMethod} {
					assert.Equal(t, [][]string{{"1"}, {"2"}}, headersOf(s, method, attemptHeader)[1:], method)
				}
			})
		})
	}
}
