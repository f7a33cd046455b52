package retrybudget_test

import (
	"context"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// arriving returns the context of a call that arrives with the given metadata.
func arriving(ctx context.Context, kv ...string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs(kv...))
}

// attemptUnder returns the attempt number that a handler behind the interceptor
// sees.
func attemptUnder(ctx context.Context, t *testing.T, opts ...retrybudget.ServerOption) (n int) {
	t.Helper()
	_, err := retrybudget.UnaryServerInterceptor(opts...)(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) {
		n = retrybudget.AttemptFromIncomingContext(ctx)
		return nil, nil
	})
	require.NoError(t, err)
	return n
}

func TestAttemptFromIncomingContext(t *testing.T) {
	t.Parallel()
	const middleware, envoy = "x-retry-attempt", "x-envoy-attempt-count"
	for _, tt := range []struct {
		name string
		kv   []string
		want int
	}{
		{"no metadata", nil, 1},
		{"other metadata", []string{"attempt", "7", "x-grpc-previous-rpc-attempts", "7"}, 1},

		{"gRFC A6", []string{attemptHeader, "1"}, 2},
		{"gRFC A6, tenth retry", []string{attemptHeader, "10"}, 11},
		{"go-grpc-middleware", []string{middleware, "1"}, 2},
		{"Envoy, original", []string{envoy, "1"}, 1},
		{"Envoy, first retry", []string{envoy, "2"}, 2},
		{"name in capitals", []string{"Grpc-Previous-Rpc-Attempts", "1"}, 2},
		{"zero", []string{attemptHeader, "0"}, 1},
		{"Envoy zero", []string{envoy, "0"}, 1},

		{"largest of several values", []string{attemptHeader, "1", attemptHeader, "3", attemptHeader, "2"}, 4},
		{"largest of all headers", []string{attemptHeader, "1", middleware, "2", envoy, "5"}, 5},
		{"gRFC A6 largest", []string{attemptHeader, "9", middleware, "2", envoy, "5"}, 10},
		{"Envoy's retry of an original", []string{attemptHeader, "0", envoy, "3"}, 3},
		{"one readable", []string{attemptHeader, "x", attemptHeader, "2", attemptHeader, "-9"}, 3},

		{"empty", []string{attemptHeader, ""}, 1},
		{"word", []string{attemptHeader, "one"}, 1},
		{"negative", []string{attemptHeader, "-1"}, 1},
		{"plus sign", []string{attemptHeader, "+1"}, 1},
		{"fraction", []string{attemptHeader, "1.0"}, 1},
		{"space", []string{attemptHeader, " 1"}, 1},
		{"hexadecimal", []string{attemptHeader, "0x1"}, 1},
		{"underscore", []string{attemptHeader, "1_0"}, 1},
		{"list", []string{attemptHeader, "1,2"}, 1},
		{"other digits", []string{attemptHeader, "١"}, 1},
		{"largest that fits", []string{attemptHeader, "2147483646"}, math.MaxInt32},
		{"one more, which is no attempt number", []string{attemptHeader, "2147483647"}, math.MaxInt32},
		{"huge", []string{attemptHeader, "2147483648"}, 1},
		{"64 bits", []string{attemptHeader, "18446744073709551615"}, 1},
		{"larger still", []string{attemptHeader, strings.Repeat("9", 100)}, 1},
		{"huge beside a good one", []string{attemptHeader, "2147483648", attemptHeader, "2"}, 3},
		{"Envoy huge", []string{envoy, "2147483648"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := arriving(t.Context(), tt.kv...)
			assert.Equal(t, tt.want, retrybudget.AttemptFromIncomingContext(ctx), "without the interceptor")
			assert.Equal(t, tt.want, attemptUnder(ctx, t), "under it")
		})
	}
	assert.Equal(t, 1, retrybudget.AttemptFromIncomingContext(t.Context()), "not a server's context")
}

func TestAttemptFromIncomingContext_headersOfTheApplicationsOwn(t *testing.T) {
	t.Parallel()
	opts := []retrybudget.ServerOption{retrybudget.WithIncomingAttemptHeader("X-Mine"), retrybudget.WithIncomingAttemptHeader("x-other")}
	for _, tt := range []struct {
		kv            []string
		under, beside int // the interceptor
	}{
		{[]string{"x-mine", "2"}, 3, 1},
		{[]string{"x-other", "4", "x-mine", "2"}, 5, 1},
		{[]string{"x-mine", "2", attemptHeader, "5"}, 6, 6},
		{[]string{"x-mine", "junk", attemptHeader, "1"}, 2, 2},
	} {
		ctx := arriving(t.Context(), tt.kv...)
		assert.Equal(t, tt.under, attemptUnder(ctx, t, opts...), "%v", tt.kv)
		assert.Equal(t, tt.beside, retrybudget.AttemptFromIncomingContext(ctx), "%v", tt.kv)
	}
	assert.Equal(t, 1, attemptUnder(arriving(t.Context(), "x-mine", "2"), t), "options of one interceptor are not another's")
}

// The clients that the numbers come from, for real.
func TestAttemptFromIncomingContext_clients(t *testing.T) {
	t.Parallel()
	middleware := []retry.CallOption{retry.WithMax(3), retry.WithBackoff(retry.BackoffLinear(ms))}
	for _, tt := range []struct {
		name string
		dial func(t *testing.T) []grpc.DialOption
		opts []retrybudget.ServerOption
		want []int
	}{
		{name: "this library", dial: func(t *testing.T) []grpc.DialOption { return newRetrier(t).DialOptions() }, want: []int{1, 2, 3}},
		{
			name: "this library, another header",
			dial: func(t *testing.T) []grpc.DialOption {
				return newRetrier(t, retrybudget.WithAttemptHeader("X-Mine")).DialOptions()
			},
			opts: []retrybudget.ServerOption{retrybudget.WithIncomingAttemptHeader("X-Mine")}, want: []int{1, 2, 3},
		},
		{name: "grpc-go", dial: func(*testing.T) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithDefaultServiceConfig(nativePolicy)}
		}, want: []int{1, 2, 3}},
		{name: "go-grpc-middleware", dial: func(*testing.T) []grpc.DialOption {
			return []grpc.DialOption{
				grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(middleware...)),
				grpc.WithChainStreamInterceptor(retry.StreamClientInterceptor(middleware...)),
			}
		}, want: []int{1, 2, 3}},
		{name: "none that retries", dial: func(*testing.T) []grpc.DialOption { return nil }, want: []int{1}},
	} {
		for _, kind := range handlerKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var seen []int
					s := serve(t, func(ctx context.Context) error {
						seen = append(seen, retrybudget.AttemptFromIncomingContext(ctx))
						return unavailable("mine")
					}, guarded(tt.opts...)...)

					require.Error(t, kind.call(t.Context(), s.dial(t, tt.dial(t)...)))

					assert.Equal(t, tt.want, seen)
				})
			})
		}
	}
}

// The number is the incoming call's: the handler's own calls count for
// themselves, and do not pass on the header that came in.
func TestAttemptFromIncomingContext_isNotPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := rpctest.New()
		d.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		down := d.Dial(t, newRetrier(t).DialOptions()...)
		s := serve(t, func(ctx context.Context) error {
			assert.Equal(t, 7, retrybudget.AttemptFromIncomingContext(ctx))
			assert.Equal(t, 1, retrybudget.AttemptFromContext(ctx), "the number of an outgoing attempt is another matter")
			return rpctest.Call(ctx, down)
		}, guarded()...)

		require.NoError(t, rpctest.Call(metadata.AppendToOutgoingContext(t.Context(), attemptHeader, "6"), s.dial(t)))

		assert.Equal(t, [][]string{nil, {"1"}}, headersOf(d, rpctest.Method, attemptHeader))
	})
}

var onlyDigits = regexp.MustCompile(`^[0-9]+$`)

// Whatever clients send: a number from 1 to the largest, and the one that the
// plain reading of each value gives.
func FuzzAttemptFromIncomingContext(f *testing.F) {
	for _, seed := range [][4]string{
		{"", "", "", ""},
		{"1", "2", "3", "4"},
		{"-1", "+1", "0x1", "1_0"},
		{"007", "2147483647", "2147483648", "00000000000000000000000000001"},
		{"9223372036854775807", "18446744073709551616", "\x00", "１"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, standard, again, middleware, envoy string) {
		before := new(big.Int)
		read := func(value string, excess int64) {
			n, ok := new(big.Int).SetString(value, 10)
			if !ok || !onlyDigits.MatchString(value) || n.BitLen() > 31 {
				return
			}
			if n.Sub(n, big.NewInt(excess)); n.Cmp(before) > 0 {
				before = n
			}
		}
		read(standard, 0)
		read(again, 0)
		read(middleware, 0)
		read(envoy, 1)
		want := min(before.Int64()+1, math.MaxInt32)
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{
			attemptHeader: {standard, again}, "x-retry-attempt": {middleware}, "x-envoy-attempt-count": {envoy},
		})

		assert.Equal(t, int(want), retrybudget.AttemptFromIncomingContext(ctx))
		assert.Equal(t, int(want), attemptUnder(ctx, t))
	})
}
