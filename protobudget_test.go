package retrybudget_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// Of what kind a budget of a message is: its level at the start, the retries that
// it grants to a call, and the level after a call that failed so.
func TestWithConfig_budgetKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, config            string
		start, capacity         float64
		attempts                int
		afterFailure, afterGood float64
	}{
		{"none", ``, 0, 20, 1, 0, 0.1},
		{"empty", `budgets {}`, 0, 20, 1, 0, 0.1},
		{"token_bucket", `budgets { token_bucket { capacity: 7 ratio: 0.25 initial: 1 } }`, 1, 7, 2, 0, 0.25},
		{"token_bucket of defaults", `budgets { token_bucket {} }`, 0, 20, 1, 0, 0.1},
		{"adaptive", `budgets { adaptive { reserve: 1 ratio: 0.5 } }`, 1, 1e9, 2, 0, 0.5},
		{"adaptive of defaults", `budgets { adaptive {} }`, 2, 1e9, 3, 0, 0.1},
		{"throttle", `budgets { throttle { max_tokens: 4 token_ratio: 0.5 } }`, 4, 4, 2, 2, 2.5},
		{"two", `budgets { token_bucket { initial: 9 } } budgets { token_bucket { initial: 1 capacity: 30 } }`, 1, 20, 2, 0, 0.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				r, err := retrybudget.New(withConfig(t, tt.config))
				require.NoError(t, err)
				cc := s.Dial(t, r.DialOptions()...)
				level := func(key string) (tokens, capacity float64) {
					for b := range r.Budgets() {
						if b.Method == key {
							return b.Tokens, b.Capacity
						}
					}
					return -1, -1
				}

				require.Error(t, rpctest.CallMethod(t.Context(), cc, rpctest.Method, retrybudget.CallDisabled()))
				tokens, capacity := level(rpctest.Method)
				assert.InDelta(t, tt.start, tokens, 1e-9, "a call that is not to be retried costs nothing")
				assert.InDelta(t, tt.capacity, capacity, 1e-9)

				s2 := s.Attempts("")
				require.Error(t, rpctest.Call(t.Context(), cc))
				assert.Equal(t, tt.attempts, s.Attempts("")-s2)
				tokens, _ = level(rpctest.Method)
				assert.InDelta(t, tt.afterFailure, tokens, 1e-9)

				s.Script(rpctest.Method, rpctest.OK())
				require.NoError(t, rpctest.Call(t.Context(), cc))
				tokens, _ = level(rpctest.Method)
				assert.InDelta(t, tt.afterGood, tokens, 1e-9)
			})
		})
	}
}

func TestWithConfig_unlimited(t *testing.T) {
	t.Parallel()
	r, err := retrybudget.New(withConfig(t, `default_policy { max_attempts: 50 constant_backoff {} } budgets { unlimited {} }`))
	require.NoError(t, err)
	assert.Equal(t, 50, callName(t.Context(), r, "/pkg.A/One", codes.Unavailable))
}

// How many of three calls get the one retry that a budget holds.
func TestWithConfig_budgetScopes(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]int{
		"":                         3,
		"scope: SCOPE_PER_METHOD":  3,
		"scope: SCOPE_PER_SERVICE": 2,
		"scope: SCOPE_PER_TARGET":  1,
		"scope: SCOPE_SHARED":      1,
	} {
		r, err := retrybudget.New(withConfig(t, `budgets { token_bucket { initial: 1 } `+scope+` } default_policy { constant_backoff {} }`))
		require.NoError(t, err)
		retries := 0
		for _, name := range []string{"/pkg.A/One", "/pkg.A/Two", "/pkg.B/One"} {
			retries += callName(t.Context(), r, name, codes.Unavailable) - 1
		}
		assert.Equal(t, want, retries, scope)
	}
}

// Per target and for all differ by targets only; and two Retriers made of one
// message share nothing.
func TestWithConfig_budgetsOfTargetsAndRetriers(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]int{"SCOPE_PER_TARGET": 2, "SCOPE_SHARED": 1} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				option := withConfig(t, `budgets { token_bucket { initial: 1 } scope: `+scope+` }`)
				for range 2 {
					r, err := retrybudget.New(option)
					require.NoError(t, err)
					s := rpctest.New()
					s.Script(rpctest.Method, rpctest.Unavailable())
					l := s.Start(t)
					for _, target := range []string{"passthrough:///a", "passthrough:///b"} {
						require.Error(t, rpctest.Call(t.Context(), l.DialTarget(t, target, r.DialOptions()...)))
					}
					assert.Equal(t, want, s.Attempts("")-2)
				}
			})
		})
	}
}
