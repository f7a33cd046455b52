package retrybudget_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// servers are a server with the interceptors and one without.
var servers = []struct {
	name string
	opts func() []grpc.ServerOption
}{
	{"with the interceptors", func() []grpc.ServerOption { return guarded() }},
	{"without", func() []grpc.ServerOption { return nil }},
}

// eachHandler runs f for both kinds of handler, with the interceptors and
// without. trailerOf is what a handler's answer says, and its error.
func eachHandler(t *testing.T, f func(t *testing.T, trailerOf func(handler func(context.Context) error) (metadata.MD, error))) {
	t.Helper()
	for _, server := range servers {
		for _, kind := range handlerKinds {
			t.Run(server.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f(t, func(handler func(context.Context) error) (metadata.MD, error) {
						var trailer metadata.MD
						err := kind.call(t.Context(), serve(t, handler, server.opts()...).dial(t), grpc.Trailer(&trailer))
						return said(trailer), err
					})
				})
			})
		}
	}
}

func TestSetPushback_rounding(t *testing.T) {
	t.Parallel()
	eachHandler(t, func(t *testing.T, trailerOf func(func(context.Context) error) (metadata.MD, error)) {
		for d, want := range map[time.Duration]string{
			math.MinInt64:                    "0",
			-time.Second:                     "0",
			-1:                               "0",
			0:                                "0",
			1:                                "1", // never sooner than asked
			ms - 1:                           "1",
			ms:                               "1",
			ms + 1:                           "2",
			1500 * time.Microsecond:          "2",
			250 * ms:                         "250",
			time.Minute:                      "60000",
			math.MaxInt32 * ms:               "2147483647",
			math.MaxInt32*ms + 1:             "2147483647",
			(math.MaxInt32 + 1) * ms:         "2147483647",
			math.MaxInt64:                    "2147483647",
			math.MaxInt64 / ms * ms:          "2147483647",
			math.MaxInt32*ms - ms + 1:        "2147483647",
			(math.MaxInt32 - 1) * ms:         "2147483646",
			1000000*time.Hour + time.Second:  "2147483647",
			24*time.Hour + 999*ms + 1:        "86401000",
			time.Duration(math.MaxInt32) + 1: "2148",
		} {
			trailer, err := trailerOf(func(ctx context.Context) error {
				assert.NoError(t, retrybudget.SetPushback(ctx, d))
				return unavailable("mine")
			})
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, metadata.Pairs(pushbackTrailer, want), trailer, "%d", d)
		}
	})
}

func TestStopRetries(t *testing.T) {
	t.Parallel()
	eachHandler(t, func(t *testing.T, trailerOf func(func(context.Context) error) (metadata.MD, error)) {
		trailer, err := trailerOf(func(ctx context.Context) error {
			assert.NoError(t, retrybudget.StopRetries(ctx))
			return unavailable("mine")
		})
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, metadata.Pairs(pushbackTrailer, "-1"), trailer)
	})
}

// Whatever a handler says, and how often: one value goes out, with failures only.
func TestPushbackOfHandlers_oneValue(t *testing.T) {
	t.Parallel()
	set := func(d time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { return retrybudget.SetPushback(ctx, d) }
	}
	stop := retrybudget.StopRetries
	for _, tt := range []struct {
		name string
		says []func(context.Context) error
		want string
	}{
		{"nothing", nil, ""},
		{"the last delay counts", []func(context.Context) error{set(time.Second), set(20 * ms)}, "20"},
		{"also a shorter one after a longer", []func(context.Context) error{set(20 * ms), set(time.Second), set(0)}, "0"},
		{"stop after a delay", []func(context.Context) error{set(20 * ms), stop}, "-1"},
		{"stop before a delay", []func(context.Context) error{stop, set(20 * ms)}, "-1"},
		{"stop twice", []func(context.Context) error{stop, stop}, "-1"},
	} {
		for _, kind := range handlerKinds {
			for _, code := range []codes.Code{codes.Unavailable, codes.NotFound, codes.OK} {
				t.Run(fmt.Sprint(tt.name, "/", kind.name, "/", code), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						trailer, err := trailerOf(t, kind.call, func(ctx context.Context) error {
							for _, say := range tt.says {
								assert.NoError(t, say(ctx))
							}
							return status.Error(code, "mine")
						})
						assert.Equal(t, code, status.Code(err))
						if tt.want == "" || code == codes.OK {
							assert.Empty(t, trailer)
							return
						}
						assert.Equal(t, metadata.Pairs(pushbackTrailer, tt.want), trailer)
					})
				})
			}
		}
	}
}

func TestPushbackOfHandlers_severalGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, stopping := range []bool{false, true} {
			trailer, err := trailerOf(t, rpctest.Call, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				parallel(10, func(i int) {
					if stopping && i == 3 {
						assert.NoError(t, retrybudget.StopRetries(ctx))
						return
					}
					assert.NoError(t, retrybudget.SetPushback(ctx, 20*ms))
				})
				return unavailable("mine")
			})
			require.Error(t, err)
			want := "20"
			if stopping {
				want = "-1"
			}
			assert.Equal(t, []string{want}, trailer.Get(pushbackTrailer))
		}
	})
}

// The handler's own word and the hint are different things and go out together.
func TestPushbackOfHandlers_besideTheHint(t *testing.T) {
	t.Parallel()
	for want, say := range map[string]func(context.Context) error{
		"30": func(ctx context.Context) error { return retrybudget.SetPushback(ctx, 30*ms) },
		"-1": retrybudget.StopRetries,
	} {
		for _, kind := range handlerKinds {
			t.Run(kind.name+"/"+want, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down := refusing(t)
					trailer, err := trailerOf(t, kind.call, func(ctx context.Context) error {
						assert.NoError(t, say(ctx))
						return rpctest.Call(ctx, down)
					})
					require.Error(t, err)
					assert.Equal(t, metadata.Pairs(pushbackTrailer, want, exhaustedTrailer, "1"), trailer)
				})
			})
		}
	}
}

// A context that no gRPC handler was given has no answer to put anything in.
func TestPushbackOfHandlers_outsideAHandler(t *testing.T) {
	t.Parallel()
	assert.Error(t, retrybudget.SetPushback(t.Context(), time.Second))
	assert.Error(t, retrybudget.StopRetries(t.Context()))
}
