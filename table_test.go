package retrybudget_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

// methodsOf returns the methods that have a budget, in order; the common one has
// the empty name.
func methodsOf(r *retrybudget.Retrier) (names []string) {
	for _, b := range budgetsOf(r) {
		names = append(names, b.Method)
	}
	return names
}

// keysRetrier makes a Retrier for n keys with buckets of their own.
func keysRetrier(t testing.TB, n int, cfg retrybudget.BudgetConfig) *retrybudget.Retrier {
	t.Helper()
	return newRetrier(t, atOnce(2), retrybudget.WithMaxKeys(n), retrybudget.WithBudget(retrybudget.PerMethod(cfg)))
}

func TestKeys_leastRecentlyUsedIsDropped(t *testing.T) {
	t.Parallel()
	r := keysRetrier(t, 3, retrybudget.TokenBucketConfig{})
	for _, name := range []string{"/a/a", "/b/b", "/c/c", "/a/a", "/d/d"} {
		callName(t.Context(), r, name, codes.OK)
	}
	assert.Equal(t, []string{"/a/a", "/c/c", "/d/d"}, methodsOf(r))
	callName(t.Context(), r, "/c/c", codes.OK)
	callName(t.Context(), r, "/e/e", codes.OK)
	assert.Equal(t, []string{"/c/c", "/d/d", "/e/e"}, methodsOf(r))
}

// A budget that was spent must not come back full because its name was pushed
// out: it stays, and others go or share.
func TestKeys_droppingNeverRefills(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 64, 1024} {
		r := keysRetrier(t, limit, retrybudget.TokenBucketConfig{Capacity: 10, Initial: 10})
		retries := 0
		for range 20 {
			retries += callName(t.Context(), r, "/a.A/drained", codes.Unavailable) - 1
		}
		require.Equal(t, 10, retries)
		for i := range 2*limit + 100 {
			callName(t.Context(), r, fmt.Sprintf("/x.X/%d", i), codes.Unimplemented)
		}
		assert.LessOrEqual(t, len(budgetsOf(r)), limit+1)
		assert.Equal(t, 1, callName(t.Context(), r, "/a.A/drained", codes.Unavailable), "limit %d", limit)
	}
}

// Names without room have one budget between them.
func TestKeys_namesWithoutRoomShare(t *testing.T) {
	t.Parallel()
	const limit, names = 16, 2000
	r := keysRetrier(t, limit, retrybudget.TokenBucketConfig{Capacity: 10, Initial: 2})
	for round := range 3 {
		attempts := 0
		for i := range names {
			attempts += callName(t.Context(), r, fmt.Sprintf("/x.X/%d", i), codes.Unavailable)
		}
		want := names
		switch round {
		case 0: // one retry for each name with a key, the first ones; two for all others
			want += limit + 2
		case 1: // their second token
			want += limit
		}
		assert.Equal(t, want, attempts, "round %d", round)
	}
	infos := budgetsOf(r)
	require.Len(t, infos, limit+1)
	assert.Equal(t, retrybudget.BudgetInfo{Capacity: 10}, infos[0], "the common one")
}

// An empty start makes every key droppable: what it earned is lost, nothing is
// won.
func TestKeys_emptyStart(t *testing.T) {
	t.Parallel()
	r := keysRetrier(t, 1, retrybudget.TokenBucketConfig{})
	for range 50 {
		callName(t.Context(), r, "/a/a", codes.OK)
	}
	callName(t.Context(), r, "/b/b", codes.OK)
	assert.Equal(t, []retrybudget.BudgetInfo{{Method: "/b/b", Tokens: 0.1, Capacity: 20}}, budgetsOf(r))
	assert.Equal(t, 1, callName(t.Context(), r, "/a/a", codes.Unavailable))
}

// A call that is under way when its key is dropped still draws on the allowance
// of its name, not on one more.
func TestKeys_droppingNeverRefillsUnderACall(t *testing.T) {
	t.Parallel()
	r := keysRetrier(t, 1, retrybudget.TokenBucketConfig{Capacity: 1, Initial: 1})
	attempts := 0
	call := func(during func()) {
		first := true
		_ = r.UnaryClientInterceptor()(t.Context(), "/a/a", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			attempts++
			if first {
				first = false
				during()
			}
			return status.Error(codes.Unavailable, "")
		})
	}
	call(func() {
		callName(t.Context(), r, "/b/b", codes.OK) // takes the only place
		call(func() {})                            // takes it back
	})
	assert.Equal(t, 2+1, attempts, "two calls, one token")
}

// levelBudget reports what it is told to.
type levelBudget struct {
	*ownBudget
	level float64
}

func (b levelBudget) Level() (tokens, capacity float64) { return b.level, 10 }

// sliceBudget cannot be compared with ==.
type sliceBudget struct {
	*ownBudget
	_ []int
}

// Which budgets of the application's own may be dropped: those that say they
// hold enough, and those that the factory hands out again.
func TestKeys_budgetsOfTheApplicationsOwn(t *testing.T) {
	t.Parallel()
	one := ownTokens(0)
	levels := func(of ...float64) retrybudget.BudgetFactory {
		n := -2 // the first is the common one's
		return func(_, _ string) (retrybudget.Budget, error) {
			n++
			return levelBudget{ownTokens(0), of[min(max(n, 0), len(of)-1)]}, nil
		}
	}
	for _, tt := range []struct {
		name    string
		factory retrybudget.BudgetFactory
		dropped bool
	}{
		{"without a level", func(_, _ string) (retrybudget.Budget, error) { return ownTokens(0), nil }, false},
		{"without a level, the same again", retrybudget.Shared(one), true},
		{"not comparable", func(_, _ string) (retrybudget.Budget, error) { return sliceBudget{ownBudget: one}, nil }, false},
		{"holds less than a new one", levels(1, 2), false},
		{"holds as much", levels(2, 2), true},
		{"holds more", levels(3, 2), true},
		{"holds nobody knows what", levels(math.NaN(), 0), false},
		{"both without a level", retrybudget.Both(retrybudget.Shared(one), retrybudget.PerMethod(retrybudget.BudgetFunc(func() (retrybudget.Budget, error) { return ownTokens(0), nil }))), false},
		{"both the same again", retrybudget.Both(retrybudget.Shared(one), retrybudget.Shared(ownTokens(1))), true},
		{"both, one with a level", retrybudget.Both(retrybudget.Shared(one), levels(1, 1)), true},
		{"both, one holds less", retrybudget.Both(levels(5, 1), levels(1, 2)), false},
		{"unlimited", retrybudget.Unlimited(), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			counting := func(target, method string) (retrybudget.Budget, error) {
				if method == "/a/a" {
					asked.Add(1)
				}
				return tt.factory(target, method)
			}
			r := newRetrier(t, retrybudget.WithMaxKeys(1), retrybudget.WithBudget(counting))
			for _, name := range []string{"/a/a", "/b/b", "/a/a"} {
				callName(t.Context(), r, name, codes.OK)
			}
			// A key that was dropped is made again.
			assert.Equal(t, tt.dropped, asked.Load() == 2)
		})
	}
}

// First calls of a name at the same time get one budget, and keys that come and
// go under load neither exceed the limit nor grant a token twice.
func TestKeys_concurrentFirstUse(t *testing.T) {
	t.Parallel()
	r := keysRetrier(t, 100, retrybudget.TokenBucketConfig{Capacity: 5, Initial: 5})
	var retries [100]atomic.Int64
	parallel(16, func(int) {
		for i := range retries {
			retries[i].Add(int64(callName(t.Context(), r, fmt.Sprint("/x/", i), codes.Unavailable) - 1))
		}
	})
	for i := range retries {
		assert.Equal(t, int64(5), retries[i].Load())
	}
}

func TestKeys_concurrentComingAndGoing(t *testing.T) {
	t.Parallel()
	const limit = 8
	r := keysRetrier(t, limit, retrybudget.TokenBucketConfig{})
	parallel(16, func(g int) {
		for i := range 300 {
			callName(t.Context(), r, fmt.Sprint("/x/", (g*i)%31), codes.OK)
			if i%50 == 0 {
				// One that is dropped while others are looked at may be among
				// them, but none is there twice.
				seen := map[string]bool{}
				for _, b := range budgetsOf(r) {
					assert.False(t, seen[b.Method], b.Method)
					seen[b.Method] = true
				}
			}
		}
	})
	for _, b := range budgetsOf(r) {
		assert.Positive(t, b.Tokens, "%+v", b)
	}
	assert.Len(t, budgetsOf(r), limit)
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Not parallel: other tests' memory would be counted too.
func TestKeys_memory(t *testing.T) {
	const keys, most = 10_000, 256
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("/pkg.Service/Method%d", i)
	}
	// What earlier tests leave behind may be freed meanwhile, which makes a
	// measurement too small; the largest of three is nearest the truth.
	var each int64
	for range 3 {
		r := keysRetrier(t, keys, retrybudget.TokenBucketConfig{})
		before := heap()
		for _, name := range names {
			callName(t.Context(), r, name, codes.OK)
		}
		each = max(each, (heap()-before)/keys)
		runtime.KeepAlive(r)
	}
	t.Logf("%d bytes for each key", each)
	assert.LessOrEqual(t, each, int64(most))
	assert.Greater(t, each, int64(64), "the measurement sees the keys")
	runtime.KeepAlive(names)
}

// Not parallel, likewise. A proxy passes on names that others choose.
func TestKeys_memoryStaysFlat(t *testing.T) {
	const limit = 16
	for code, names := range map[codes.Code]int{codes.Unimplemented: 10_000, codes.Unavailable: 100_000} {
		r := keysRetrier(t, limit, retrybudget.TokenBucketConfig{Capacity: 5, Initial: 1})
		attempts := 0
		call := func(from, to int) {
			for i := from; i < to; i++ {
				attempts += callName(t.Context(), r, fmt.Sprintf("/x.X/%d", i), code)
			}
		}
		call(0, 2*limit)
		before := heap()
		call(2*limit, names)
		assert.Less(t, heap()-before, int64(64<<10), "%v", code)
		if code == codes.Unavailable {
			assert.Equal(t, names+limit+1, attempts, "one retry for each key and one for all the others")
		}
		runtime.KeepAlive(r)
	}
}
