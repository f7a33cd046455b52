package retrybudget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// The handler's calls find their way back through whatever context it derived.
func TestServerHint_derivedContexts(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, derive := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"itself": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"cancel": context.WithCancel,
		"without it": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithoutCancel(ctx), func() {}
		},
		"value": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, 1), func() {}
		},
		"own metadata": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return metadata.AppendToOutgoingContext(ctx, "k", "v"), func() {}
		},
		"none incoming": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return metadata.NewIncomingContext(ctx, nil), func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				down := refusing(t)
				trailer, err := trailerOf(t, rpctest.Call, func(ctx context.Context) error {
					ctx, cancel := derive(ctx)
					defer cancel()
					return rpctest.Call(ctx, down)
				})
				require.Error(t, err)
				assert.Equal(t, []string{"1"}, trailer.Get(exhaustedTrailer))
			})
		})
	}
	t.Run("not the handler's", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			down := refusing(t)
			trailer, err := trailerOf(t, rpctest.Call, func(context.Context) error { return rpctest.Call(t.Context(), down) })
			require.Error(t, err)
			assert.Empty(t, trailer, "a call of nobody's")
		})
	})
}

// A handler that asks several services at the same time: one refusal is enough.
func TestServerHint_severalGoroutines(t *testing.T) {
	t.Parallel()
	for _, kind := range handlerKinds {
		for name, tt := range map[string]struct {
			refused []int // which of the ten calls
			want    []string
		}{
			"none": {nil, nil},
			"one":  {[]int{7}, []string{"1"}},
			"all":  {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []string{"1"}},
		} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					down, up := refusing(t), downstream(t, nil)
					to := make([]*grpc.ClientConn, 10)
					for i := range to {
						to[i] = up
					}
					for _, i := range tt.refused {
						to[i] = down
					}
					trailer, err := trailerOf(t, kind.call, func(ctx context.Context) error {
						parallel(len(to), func(i int) { _ = rpctest.Call(ctx, to[i]) })
						return unavailable("mine")
					})
					require.Error(t, err)
					assert.Equal(t, tt.want, trailer.Get(exhaustedTrailer))
				})
			})
		}
	}
}

// A goroutine that the handler leaves behind has nobody to tell.
func TestServerHint_goroutineThatOutlivesTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := refusing(t)
		proceed, done := make(chan struct{}), make(chan struct{})
		trailer, err := trailerOf(t, rpctest.Call, func(ctx context.Context) error {
			go func() {
				defer close(done)
				<-proceed
				ctx = context.WithoutCancel(ctx)
				assert.ErrorIs(t, rpctest.Call(ctx, down), retrybudget.ErrBudgetExhausted)
				assert.NoError(t, retrybudget.SetPushback(ctx, time.Second))
				assert.NoError(t, retrybudget.StopRetries(ctx))
			}()
			return unavailable("mine")
		})
		close(proceed)
		<-done
		require.Error(t, err)
		assert.Empty(t, trailer)
	})
}

// What one call met is not told the next, nor one at the same time.
func TestServerHint_eachCallItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := refusing(t)
		cc := serve(t, func(ctx context.Context) error {
			<-time.After(10 * ms) // so that the calls overlap
			if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("refused")) > 0 {
				return rpctest.Call(ctx, down)
			}
			return unavailable("mine")
		}, guarded()...).dial(t)
		parallel(20, func(i int) {
			ctx, want := t.Context(), []string(nil)
			if i%2 == 1 {
				ctx, want = metadata.AppendToOutgoingContext(ctx, "refused", "yes"), []string{"1"}
			}
			var trailer metadata.MD
			for range 3 {
				assert.Error(t, rpctest.Call(ctx, cc, grpc.Trailer(&trailer)))
				assert.Equal(t, want, trailer.Get(exhaustedTrailer))
			}
		})
	})
}
