package retrybudget_test

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// The ways to install the stream interceptor, and the call options of streams.

func TestStreamOptions_plainInterceptors(t *testing.T) {
	t.Parallel()
	for name, install := range map[string]func(t *testing.T) []grpc.DialOption{
		"DialOptions": func(t *testing.T) []grpc.DialOption { return newRetrier(t, atOnce(3)).DialOptions() },
		"plain": func(t *testing.T) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithStreamInterceptor(newRetrier(t, atOnce(3)).StreamClientInterceptor())}
		},
		"package-level": func(*testing.T) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithChainStreamInterceptor(
				retrybudget.StreamClientInterceptor(retrybudget.WithBudget(retrybudget.Unlimited()), atOnce(3)))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, failing(unavailable("x")), failing(unavailable("x")), sending(nil, "m"))
				cs := open(t.Context(), t, s.Dial(t, install(t)...), bidiStream)
				sendAll(t, cs, "a")
				got, err := recvAll(cs)
				assert.Equal(t, io.EOF, err)
				assert.Equal(t, []string{"m"}, got)
			})
		})
	}
	assert.Panics(t, func() { retrybudget.StreamClientInterceptor(retrybudget.WithReplayLimits(-1, 0)) })
}

// Beside a native retryPolicy attempts multiply, which is reported; DialOptions
// switches the native one off.
func TestStreamOptions_besideNativeRetries(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprint("plain ", plain), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, failing(unavailable("x")))
				journal := &callJournal{}
				r := newRetrier(t, atOnce(3), retrybudget.WithObserver(journal))
				options, attempts, warnings := r.DialOptions(), 3, 0
				if plain {
					options, attempts, warnings = []grpc.DialOption{grpc.WithStreamInterceptor(r.StreamClientInterceptor())}, 9, 1
				}
				cc := s.Dial(t, append(options, grpc.WithDefaultServiceConfig(retryOfGRPC))...)
				for range 2 {
					before := s.AttemptsOf(streamMethod)
					cs := open(t.Context(), t, cc, serverStream)
					sendAll(t, cs, "a")
					_, err := recvOne(cs)
					assert.Equal(t, codes.Unavailable, status.Code(err))
					assert.Equal(t, attempts, s.AttemptsOf(streamMethod)-before)
				}
				assert.Len(t, journal.retries, 4)
				assert.Len(t, journal.warnings, warnings)
			})
		})
	}
}

func TestStreamOptions_invalidOneKeepsTheCallFromStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, sending(nil, "m"))
		journal := &callJournal{}
		r := newRetrier(t, retrybudget.WithObserver(journal))
		var ended []error
		cs, err := s.Dial(t, r.DialOptions()...).NewStream(t.Context(), bidiStream, streamMethod,
			retrybudget.CallMaxAttempts(-1), grpc.OnFinish(func(err error) { ended = append(ended, err) }))
		assert.Nil(t, cs)
		assert.Equal(t, codes.Internal, status.Code(err))
		assert.Equal(t, []error{err}, ended)
		assert.Zero(t, s.AttemptsOf(streamMethod))
		assert.Empty(t, journal.ended)
	})
}

// The caller's slice stays as it is, and what is further in sees neither this
// library's options nor the caller's OnFinish.
func TestStreamOptions_callersSliceIsOnlyRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")), sending(nil, "m"))
		inner := 0
		cc := s.Dial(t, withStreams(newRetrier(t), func(a streamOpened) (grpc.ClientStream, error) {
			for _, o := range a.opts {
				if _, ok := o.(grpc.StaticMethodCallOption); ok {
					inner++
				}
			}
			return a.open(a.ctx, a.opts...)
		})...)
		mine := make([]grpc.CallOption, 0, 10)
		mine = append(mine, grpc.StaticMethod(), retrybudget.CallMaxAttempts(2), grpc.WaitForReady(true))
		before := slices.Clone(mine[:cap(mine)])
		cs := open(t.Context(), t, cc, bidiStream, mine...)
		sendAll(t, cs, "a")
		_, err := recvAll(cs)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, before, mine[:cap(mine)])
		assert.Equal(t, 2, inner)
	})
}

func TestStreamOptions_oneIdempotencyKeyForAllAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		aborted := failing(status.Error(codes.Aborted, "x")) // retried where idempotent
		s := streamServer(t, aborted, aborted, sending(nil, "m"))
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{IdempotencyKey: "x-key", Backoff: retrybudget.ConstantBackoff(0)}))
		cc := s.Dial(t, r.DialOptions()...)
		keys := map[string]int{}
		for i := range 2 {
			cs := open(withCallID(t, fmt.Sprint(i)), t, cc, bidiStream)
			sendAll(t, cs, "a")
			_, err := recvAll(cs)
			assert.Equal(t, io.EOF, err)
		}
		for _, e := range s.Entries("") {
			require.Len(t, e.MD.Get("x-key"), 1)
			keys[e.MD.Get("x-key")[0]]++
		}
		assert.Len(t, keys, 2)
		for _, n := range keys {
			assert.Equal(t, 3, n)
		}
	})
}

// A stream with one message each way: how proxies make unary calls.
func TestStreamOptions_unaryCallAsAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, failing(unavailable("x")), reading(1, failing(unavailable("x"))), reading(1, sending(nil, "m")))
		r := newRetrier(t)
		cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), &grpc.StreamDesc{})
		require.NoError(t, cs.SendMsg(wrapperspb.String("a")))
		require.NoError(t, cs.CloseSend())
		got, err := recvOne(cs)
		assert.NoError(t, err)
		assert.Equal(t, "m", got)
		_, err = recvOne(cs)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, 3, s.AttemptsOf(streamMethod))
		assert.Zero(t, r.ReplayBytes())
	})
}
