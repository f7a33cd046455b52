package retrybudget_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// updatable returns a Retrier without an option that would outrank a Config.
func updatable(t testing.TB, text string, opts ...option) *retrybudget.Retrier {
	t.Helper()
	r, err := retrybudget.New(append(opts, withConfig(t, text))...)
	require.NoError(t, err)
	return r
}

func update(t testing.TB, r *retrybudget.Retrier, text string) {
	t.Helper()
	require.NoError(t, r.Update(configOf(t, "allow_unknown_methods: true "+text)))
}

func TestUpdate_appliesToCallsThatStartAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		const waiting = "constant_backoff {seconds: 10}"
		r := updatable(t, "budgets {unlimited {}} default_policy {max_attempts: 4 "+waiting+"}")
		cc := s.Dial(t, r.DialOptions()...)
		under := make(chan error)
		go func() { under <- rpctest.Call(rpctest.WithCallID(t.Context(), "before"), cc) }()
		time.AfterFunc(15*time.Second, func() { // in its second wait
			update(t, r, `budgets {unlimited {}} methods {names: "`+rpctest.Method+`" policy {max_attempts: 2 `+waiting+`}} attempt_header: "x-try"`)
			assert.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), "after"), cc))
		})

		assert.Error(t, <-under)
		synctest.Wait()
		<-time.After(time.Minute)

		for id, want := range map[string][]string{"before": {"grpc-previous-rpc-attempts", "1", "2", "3"}, "after": {"x-try", "1"}} {
			var got []string
			for _, e := range s.Entries(id)[1:] {
				got = append(got, e.MD.Get(want[0])...)
			}
			assert.Equal(t, want[1:], got, id)
		}
	})
}

// Nothing of a configuration with one error is used.
func TestUpdate_allOrNothing(t *testing.T) {
	t.Parallel()
	r := updatable(t, "default_policy {max_attempts: 3 constant_backoff {}} budgets {token_bucket {initial: 9}}")
	require.Equal(t, 3, callName(t.Context(), r, "/a/a", codes.Unavailable))

	err := r.Update(configOf(t, `default_policy {max_attempts: 5} budgets {token_bucket {capacity: 5}} mode: MODE_OFF methods {names: "nothing" policy {}}`))

	assert.Equal(t, map[string]string{"methods[0].names[0]": `"nothing" is neither "/pkg.Service/Method" nor "/pkg.Service/"`}, configErrors(t, err))
	assert.Error(t, r.Update(nil))
	assert.Equal(t, 3, callName(t.Context(), r, "/a/a", codes.Unavailable))
	assert.Equal(t, []retrybudget.BudgetInfo{{Method: "/a/a", Tokens: 5, Capacity: 20}}, budgetsOf(r))
}

// What New was told in code outranks every configuration that comes.
func TestUpdate_optionsOutrankIt(t *testing.T) {
	t.Parallel()
	r := updatable(t, "", retrybudget.WithMethodPolicy("/a/a", retrybudget.Policy{MaxAttempts: 2, Backoff: retrybudget.ConstantBackoff(0)}),
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 10})))
	require.Equal(t, 2, callName(t.Context(), r, "/a/a", codes.Unavailable))

	update(t, r, `default_policy {max_attempts: 5 constant_backoff {}} methods {names: "/a/a" policy {max_attempts: 4}} budgets {token_bucket {capacity: 5}}`)

	assert.Equal(t, 2, callName(t.Context(), r, "/a/a", codes.Unavailable))
	assert.Equal(t, 5, callName(t.Context(), r, "/b/b", codes.Unavailable))
	assert.Equal(t, []retrybudget.BudgetInfo{{Method: "/a/a", Tokens: 8, Capacity: 20}, {Method: "/b/b", Tokens: 6, Capacity: 20}}, budgetsOf(r))
}

func TestUpdate_mode(t *testing.T) {
	t.Parallel()
	const policy = "default_policy {constant_backoff {}} budgets {unlimited {}} "
	r := updatable(t, policy)
	attempts := func() int { return callName(t.Context(), r, "/a/a", codes.Unavailable) }
	require.NoError(t, r.SetMode(retrybudget.Off))

	update(t, r, policy+"limits {max_keys: 7}")
	assert.Equal(t, 1, attempts(), "a kill switch stays on")

	update(t, r, policy+"mode: MODE_OBSERVE")
	assert.Equal(t, 3, attempts())
	update(t, r, policy+"mode: MODE_OFF")
	assert.Equal(t, 1, attempts())
	update(t, r, policy)
	assert.Equal(t, 3, attempts())
}

func TestUpdate_limits(t *testing.T) {
	t.Parallel()
	r := updatable(t, "limits {max_keys: 2}")
	call := func(n int) {
		for i := range n {
			callName(t.Context(), r, fmt.Sprint("/a/", i), codes.OK)
		}
	}
	call(9)
	assert.Len(t, budgetsOf(r), 2)
	update(t, r, "limits {max_keys: 5}")
	call(9)
	assert.Len(t, budgetsOf(r), 5)
	update(t, r, "limits {max_keys: 3}")
	call(9)
	assert.Len(t, budgetsOf(r), 3)

	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, hanging)
		r := updatable(t, "")
		cc := s.Dial(t, r.DialOptions()...)
		ctx, cancel := context.WithCancel(t.Context())
		held := func() int64 {
			before := r.ReplayBytes()
			sendOne(t, open(ctx, t, cc, bidiStream), "abc")
			return r.ReplayBytes() - before
		}
		assert.Positive(t, held())
		update(t, r, "limits {replay_bytes_per_call: 1}")
		assert.Zero(t, held())
		update(t, r, "limits {replay_bytes_total: 40}")
		assert.Zero(t, held(), "the first stream has most of it")
		update(t, r, "")
		assert.Positive(t, held())
		cancel()
		synctest.Wait()
		assert.Zero(t, r.ReplayBytes())
	})
}

// No call has the attempts of one configuration and the header or the waits of
// the other, and none is without a budget of its own.
func TestUpdate_underLoad(t *testing.T) {
	t.Parallel()
	r := updatable(t, "", retrybudget.WithMethodPolicy("/warm/up", retrybudget.Policy{}))
	configs := []string{
		`default_policy {max_attempts: 2 constant_backoff {}} attempt_header: "x-2" budgets {unlimited {}}`,
		`default_policy {max_attempts: 4 constant_backoff {}} attempt_header: "x-4" budgets {unlimited {}} limits {max_keys: 2}`,
		`default_policy {max_attempts: 5 constant_backoff {}} attempt_header: "x-5" budgets {token_bucket {capacity: 1000000000 initial: 1000000000}}`,
		`default_policy {max_attempts: 6 constant_backoff {}} attempt_header: "x-6" budgets {token_bucket {capacity: 900000000 initial: 900000000}}`,
		`default_policy {max_attempts: 3 constant_backoff {}} attempt_header: "x-3" budgets {scope: SCOPE_SHARED token_bucket {capacity: 1000000000 initial: 1000000000}}`,
	}
	update(t, r, configs[0])
	s := rpctest.New()
	const methods = 5
	for i := range methods {
		s.Script(fmt.Sprint("/test.Service/", i), rpctest.Unavailable())
	}
	cc := s.Dial(t, r.DialOptions()...)
	var busy atomic.Int64
	busy.Store(8)
	parallel(9, func(g int) {
		if g == 0 {
			for i := 0; busy.Load() > 0; i++ {
				update(t, r, configs[i%len(configs)])
				if i%7 == 0 {
					budgetsOf(r)
				}
			}
			return
		}
		defer busy.Add(-1)
		for i := range 100 {
			ctx := rpctest.WithCallID(t.Context(), fmt.Sprint(g, ".", i))
			assert.Error(t, rpctest.CallMethod(ctx, cc, fmt.Sprint("/test.Service/", (g+i)%methods)))
		}
	})
	calls := map[string][]rpctest.Entry{}
	for _, e := range s.Entries("") {
		calls[e.CallID] = append(calls[e.CallID], e)
	}
	assert.Len(t, calls, 800)
	for id, attempts := range calls {
		header := "x-" + strconv.Itoa(len(attempts))
		for i, e := range attempts[1:] {
			assert.Equal(t, []string{strconv.Itoa(i + 1)}, e.MD.Get(header), "call %s", id)
		}
	}
}
