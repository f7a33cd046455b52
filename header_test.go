package retrybudget_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

func TestHeader_countsPreviousAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 12})).DialOptions()...)

		require.Error(t, rpctest.Call(t.Context(), cc))

		want := [][]string{nil}
		for n := 1; n < 12; n++ {
			want = append(want, []string{strconv.Itoa(n)})
		}
		assert.Equal(t, want, headersOf(s, rpctest.Method, "grpc-previous-rpc-attempts"))
	})
}

func TestHeader_callersOwnValue(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]metadata.MD{
		"one value":  metadata.Pairs(attemptHeader, "caller"),
		"two values": metadata.Pairs(attemptHeader, "caller", attemptHeader, "again"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
				cc := s.Dial(t, newRetrier(t).DialOptions()...)
				before := given.Copy()

				require.NoError(t, rpctest.Call(metadata.NewOutgoingContext(t.Context(), given), cc))

				assert.Equal(t, [][]string{before.Get(attemptHeader), {"1"}, {"2"}}, headersOf(s, rpctest.Method, attemptHeader), "kept on the original, replaced on retries")
				assert.Equal(t, before, given)
			})
		})
	}
}

func TestHeader_anotherName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		s.Script(otherMethod, rpctest.Unavailable())
		cc := s.Dial(t, with(newRetrier(t, retrybudget.WithAttemptHeader("X-Attempt")), func(a attemptSeen) error {
			if a.n == 2 {
				_ = rpctest.CallMethod(a.ctx, a.cc, otherMethod)
			}
			return a.send(a.ctx)
		})...)

		require.Error(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, headersOf(s, rpctest.Method, "x-attempt"))
		assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, headersOf(s, otherMethod, "x-attempt"), "a call inside a retry counts for itself")
		assert.Equal(t, [][]string{nil, nil, nil}, headersOf(s, rpctest.Method, attemptHeader))
	})
}

func TestHeader_callersMetadataIsNotTouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{IdempotencyKey: "key"})).DialOptions()...)
		given := metadata.Pairs("k", "v")
		parent := metadata.NewOutgoingContext(t.Context(), given)

		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				// The call id is appended, so that all calls share the map.
				assert.NoError(t, rpctest.Call(rpctest.WithCallID(parent, strconv.Itoa(i)), cc))
			})
		}
		wg.Wait()
		s.Script(rpctest.Method, rpctest.OK())
		require.NoError(t, rpctest.Call(parent, cc))

		assert.Equal(t, metadata.Pairs("k", "v"), given)
		md, _ := metadata.FromOutgoingContext(parent)
		assert.Equal(t, metadata.Pairs("k", "v"), md)
		for i := range 20 {
			attempts := s.Entries(strconv.Itoa(i))
			require.Len(t, attempts, 2)
			assert.Empty(t, attempts[0].MD.Get(attemptHeader))
			assert.Equal(t, []string{"1"}, attempts[1].MD.Get(attemptHeader))
			for _, a := range attempts {
				assert.Equal(t, []string{"v"}, a.MD.Get("k"))
				assert.Len(t, a.MD.Get("key"), 1)
			}
		}
		all := s.Entries("")
		require.Len(t, all, 41)
		assert.Empty(t, all[40].MD.Get(attemptHeader))
		assert.Equal(t, []string{"v"}, all[40].MD.Get("k"))
	})
}

func TestIdempotencyKey_oneForEachCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		policy retrybudget.Policy
		opts   []grpc.CallOption
	}{
		{"policy", retrybudget.Policy{IdempotencyKey: "Idempotency-Key"}, nil},
		{"call option", retrybudget.Policy{}, []grpc.CallOption{retrybudget.CallIdempotencyKey("Idempotency-Key")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Fail(codes.Aborted, "busy")) // retried on idempotent methods only
				cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(test.policy)).DialOptions()...)

				seen := map[string]bool{}
				for range 3 {
					require.Error(t, rpctest.Call(t.Context(), cc, test.opts...))
				}

				keys := headersOf(s, rpctest.Method, "idempotency-key")
				require.Len(t, keys, 9)
				for i, key := range keys {
					require.Len(t, key, 1)
					assert.Regexp(t, "^[0-9a-f]{32}$", key[0])
					assert.Equal(t, keys[i-i%3], key, "the same on all attempts of a call")
					seen[key[0]] = true
				}
				assert.Len(t, seen, 3, "another for each call")
				assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, headersOf(s, rpctest.Method, attemptHeader)[:3])
			})
		})
	}
}

func TestIdempotencyKey_callersOwnIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Aborted, "busy"))
		cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{IdempotencyKey: "key"})).DialOptions()...)

		require.Error(t, rpctest.Call(metadata.AppendToOutgoingContext(t.Context(), "key", "order-17"), cc))

		assert.Equal(t, [][]string{{"order-17"}, {"order-17"}, {"order-17"}}, headersOf(s, rpctest.Method, "key"))
	})
}

func TestIdempotencyKey_callOptionRemovesThePolicys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Aborted, "busy"))
		cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{IdempotencyKey: "key"})).DialOptions()...)

		require.Error(t, rpctest.Call(t.Context(), cc, retrybudget.CallIdempotencyKey("")))

		assert.Equal(t, [][]string{nil}, headersOf(s, rpctest.Method, "key"), "neither a key nor, without one, a retry")
	})
}

// A call inside an attempt, made with the attempt's context, must not be taken
// for the outer call by a server that drops duplicates.
func TestIdempotencyKey_callInsideAnAttemptHasItsOwn(t *testing.T) {
	t.Parallel()
	const unkeyed = "/test.Unkeyed/Method"
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		r := newRetrier(t, retrybudget.WithMethodPolicy("/test.Service/", retrybudget.Policy{IdempotencyKey: "key"}))
		cc := s.Dial(t, with(r, func(a attemptSeen) error {
			if a.method == rpctest.Method {
				require.NoError(t, rpctest.CallMethod(a.ctx, a.cc, unkeyed))
			}
			return callsOther(a)
		})...)

		require.NoError(t, rpctest.Call(t.Context(), cc))

		outer, nested := headersOf(s, rpctest.Method, "key"), headersOf(s, otherMethod, "key")
		require.Len(t, outer, 2)
		require.Len(t, nested, 2)
		assert.Equal(t, outer[0], outer[1])
		distinct := map[string]bool{}
		for _, key := range [][]string{outer[0], nested[0], nested[1]} {
			require.Len(t, key, 1)
			distinct[key[0]] = true
		}
		assert.Len(t, distinct, 3, "one for each call")
		assert.Equal(t, [][]string{nil, nil}, headersOf(s, unkeyed, "key"), "a method without a key gets none")
	})
}

func TestAttemptFromContext_withoutACall(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 1, retrybudget.AttemptFromContext(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, 1, retrybudget.AttemptFromContext(ctx))
}
