package retrybudget_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
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

// budgetsOf returns what Budgets iterates over, in order of target and method.
func budgetsOf(r *retrybudget.Retrier) []retrybudget.BudgetInfo {
	return slices.SortedFunc(r.Budgets(), func(a, b retrybudget.BudgetInfo) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Method, b.Method))
	})
}

// callName makes a call without a connection, which ends in the given code, and
// returns the number of attempts.
func callName(ctx context.Context, r *retrybudget.Retrier, name string, code codes.Code) (attempts int) {
	_ = r.UnaryClientInterceptor()(ctx, name, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		attempts++
		return status.Error(code, "")
	})
	return attempts
}

func TestScope_whoSharesABudget(t *testing.T) {
	t.Parallel()
	cfg := retrybudget.TokenBucketConfig{}
	const (
		a1, a2 = "/pkg.A/One", "/pkg.A/Two"
		b1     = "/pkg.B/One"
	)
	for _, tt := range []struct {
		name                                string
		factory                             retrybudget.BudgetFactory
		method, service, otherName, targets bool // shared by two of the kind
	}{
		{"PerMethod", retrybudget.PerMethod(cfg), false, false, false, false},
		{"PerService", retrybudget.PerService(cfg), true, false, false, false},
		{"PerTarget", retrybudget.PerTarget(cfg), true, true, true, false},
		{"Shared", retrybudget.Shared(newTokenBucket(t, cfg)), true, true, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			budget := func(target, method string) retrybudget.Budget {
				b, err := tt.factory(target, method)
				require.NoError(t, err)
				return b
			}
			first := budget("x", a1)
			for _, other := range []struct {
				target, method string
				shared         bool
			}{
				{"x", a2, tt.method},
				{"x", b1, tt.service},
				{"x", "no slash", tt.otherName},
				{"x", "", tt.otherName},
				{"y", a1, tt.targets},
				{"", a1, tt.targets},
			} {
				assert.Equal(t, other.shared, first == budget(other.target, other.method), "%q %q", other.target, other.method)
			}
			if tt.method {
				assert.Same(t, first, budget("x", a1), "again")
			}
		})
	}
}

// One failing method must not eat the retries of others; connections to one
// target string share, whatever is behind it.
func TestScope_onTheWire(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		factory func(retrybudget.BudgetConfig) retrybudget.BudgetFactory
		// attempts of: 1000 failing calls of the first method, then ten calls
		// [UNAVAILABLE, OK] each of another method, of a method of that name in
		// another service, of the first on a second connection to the same
		// target, and on one to another target.
		attempts [5]int
	}{
		{"PerMethod", retrybudget.PerMethod, [5]int{1010, 20, 20, 10, 20}},
		{"PerService", retrybudget.PerService, [5]int{1010, 10, 20, 10, 20}},
		{"PerTarget", retrybudget.PerTarget, [5]int{1010, 10, 10, 10, 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const first, second, namesake = "/pkg.A/One", "/pkg.A/Two", "/pkg.B/One"
				s := rpctest.New()
				s.Script(first, rpctest.Unavailable())
				r := newRetrier(t, atOnce(2), retrybudget.WithBudget(tt.factory(retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10})))
				l := s.Start(t)
				cc, same := l.Dial(t, r.DialOptions()...), l.Dial(t, r.DialOptions()...)
				elsewhere := l.DialTarget(t, "passthrough:///elsewhere", r.DialOptions()...)
				count := func(cc *grpc.ClientConn, method string, n int) int {
					before := s.Attempts("")
					for i := range n {
						_ = rpctest.CallMethod(rpctest.WithCallID(t.Context(), fmt.Sprint(cc.Target(), i)), cc, method)
					}
					return s.Attempts("") - before
				}
				var got [5]int
				got[0] = count(cc, first, 1000)
				s.Script(second, rpctest.Unavailable(), rpctest.OK())
				s.Script(namesake, rpctest.Unavailable(), rpctest.OK())
				got[1], got[2] = count(cc, second, 10), count(cc, namesake, 10)
				got[3], got[4] = count(same, first, 10), count(elsewhere, first, 10)
				assert.Equal(t, tt.attempts, got)
			})
		})
	}
}

func TestScope_factoryRunsOncePerKey(t *testing.T) {
	t.Parallel()
	type pair struct{ target, method string }
	var asked []pair
	r := newRetrier(t, retrybudget.WithBudget(func(target, method string) (retrybudget.Budget, error) {
		asked = append(asked, pair{target, method})
		return ownTokens(0), nil
	}))
	for range 3 {
		callName(t.Context(), r, "/a.A/a", codes.OK)
		callName(t.Context(), r, "/b.B/b", codes.Unavailable)
	}
	assert.Equal(t, []pair{{"", ""}, {"", "/a.A/a"}, {"", "/b.B/b"}}, asked)
}

// A factory that fails for a name must not fail the call, and must not leave it
// without a limit.
func TestScope_factoryThatFailsLater(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"error": errors.New("no store"), "nil budget": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			common := newTokenBucket(t, retrybudget.TokenBucketConfig{Initial: 1})
			var asked atomic.Int64
			journal := &callJournal{}
			r := newRetrier(t, atOnce(5), retrybudget.WithObserver(journal), retrybudget.WithBudget(func(_, method string) (retrybudget.Budget, error) {
				if method == "" {
					return common, nil
				}
				asked.Add(1)
				return nil, failure
			}))
			assert.Equal(t, 2, callName(t.Context(), r, "/a.A/a", codes.Unavailable), "the common budget")
			assert.Equal(t, 1, callName(t.Context(), r, "/a.A/a", codes.Unavailable))
			assert.Equal(t, 1, callName(t.Context(), r, "/b.B/b", codes.Unavailable))
			assert.Positive(t, asked.Load())
			require.Len(t, journal.warnings, 1, "reported once")
			assert.Equal(t, "/a.A/a", journal.warnings[0].Method)
			assert.Contains(t, journal.warnings[0].Text, "budget")
			assert.Equal(t, []retrybudget.BudgetInfo{{Tokens: 0, Capacity: 20}}, budgetsOf(r))
		})
	}
}

func TestBudgets_listsTheKeysSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		r := newRetrier(t, retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 5, Initial: 1})))
		assert.Empty(t, budgetsOf(r), "nothing was called")
		l := s.Start(t)
		here, there := l.Dial(t, r.DialOptions()...), l.DialTarget(t, "passthrough:///there", r.DialOptions()...)
		for range 3 {
			require.NoError(t, rpctest.CallMethod(t.Context(), here, "/a.A/a"))
		}
		require.NoError(t, rpctest.CallMethod(t.Context(), here, "/a.A/b"))
		require.NoError(t, rpctest.CallMethod(t.Context(), there, "/a.A/a"))
		assert.Equal(t, []retrybudget.BudgetInfo{
			{Target: "passthrough:///bufnet", Method: "/a.A/a", Tokens: 1.3, Capacity: 5},
			{Target: "passthrough:///bufnet", Method: "/a.A/b", Tokens: 1.1, Capacity: 5},
			{Target: "passthrough:///there", Method: "/a.A/a", Tokens: 1.1, Capacity: 5},
		}, budgetsOf(r))

		seen := 0
		for range r.Budgets() {
			seen++
			break
		}
		assert.Equal(t, 1, seen)
	})
}

func TestBudgets_ofEachKind(t *testing.T) {
	t.Parallel()
	shared := newTokenBucket(t, retrybudget.TokenBucketConfig{Initial: 3})
	own := retrybudget.PerMethod(retrybudget.BudgetFunc(func() (retrybudget.Budget, error) { return ownTokens(1), nil }))
	for _, tt := range []struct {
		name    string
		factory retrybudget.BudgetFactory
		want    []retrybudget.BudgetInfo
	}{
		{"shared, under each key", retrybudget.Shared(shared), []retrybudget.BudgetInfo{{"", "/a.A/a", 3, 20}, {"", "/b.B/b", 3, 20}}},
		{"unlimited", retrybudget.Unlimited(), []retrybudget.BudgetInfo{{"", "/a.A/a", math.Inf(1), math.Inf(1)}, {"", "/b.B/b", math.Inf(1), math.Inf(1)}}},
		{"without a level", own, nil},
		{"both", retrybudget.Both(retrybudget.Shared(shared), own), []retrybudget.BudgetInfo{{"", "/a.A/a", 3, 20}, {"", "/b.B/b", 3, 20}}},
		{"both without a level", retrybudget.Both(own, own), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRetrier(t, retrybudget.WithBudget(tt.factory))
			callName(t.Context(), r, "/a.A/a", codes.NotFound)
			callName(t.Context(), r, "/b.B/b", codes.NotFound)
			assert.Equal(t, tt.want, budgetsOf(r))
		})
	}
}
