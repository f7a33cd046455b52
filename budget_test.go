package retrybudget_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
)

// ownBudget is a Budget as an application might write it: it reports no level,
// and counts what it is told.
type ownBudget struct {
	tokens                                       atomic.Int64
	granted, refunded, settled, successes, fails atomic.Int64
}

func (b *ownBudget) RecordSuccess()                  { b.successes.Add(1) }
func (b *ownBudget) RecordFailure(retrybudget.Cause) { b.fails.Add(1) }

func (b *ownBudget) TryTake(retrybudget.Cause) bool {
	for {
		have := b.tokens.Load()
		if have <= 0 {
			return false
		}
		if b.tokens.CompareAndSwap(have, have-1) {
			b.granted.Add(1)
			return true
		}
	}
}

func (b *ownBudget) Settle(_ retrybudget.Cause, o retrybudget.Outcome) {
	b.settled.Add(1)
	if o == retrybudget.Refused {
		b.refunded.Add(1)
		b.tokens.Add(1)
	}
}

func ownTokens(n int64) *ownBudget {
	b := new(ownBudget)
	b.tokens.Store(n)
	return b
}

// both joins two budgets as WithBudget would.
func both(t testing.TB, first, second retrybudget.Budget) retrybudget.Budget {
	t.Helper()
	b, err := retrybudget.Both(retrybudget.Shared(first), retrybudget.Shared(second))("target", "/a.B/c")
	require.NoError(t, err)
	return b
}

func TestBoth_bothPayOrNeither(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		first, second  int // tokens
		capacity       int // of the second
		cause          retrybudget.Cause
		granted        bool
		after1, after2 int64
	}{
		{"both have", 2, 2, 20, plain, true, 1000, 1000},
		{"first is empty", 0, 2, 20, plain, false, 0, 2000},
		{"second is empty", 2, 0, 20, plain, false, 2000, 0},
		{"both are empty", 0, 0, 20, plain, false, 0, 0},
		{"hinted", 5, 6, 20, hinted, true, 1000, 2000},
		{"hinted, not enough in the second", 5, 3, 20, hinted, false, 5000, 3000},
		{"hinted, not enough in the first", 3, 5, 20, hinted, false, 3000, 5000},
		{"hinted, the second is small", 5, 2, 2, hinted, true, 1000, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first := newTokenBucket(t, retrybudget.TokenBucketConfig{Initial: tt.first})
			second := newTokenBucket(t, retrybudget.TokenBucketConfig{Initial: tt.second, Capacity: tt.capacity})
			assert.Equal(t, tt.granted, both(t, first, second).TryTake(tt.cause))
			assert.Equal(t, tt.after1, tokensIn(first))
			assert.Equal(t, tt.after2, tokensIn(second))
		})
	}
}

// Three budgets, joined either way: the last one's refusal reaches all others.
func TestBoth_nested(t *testing.T) {
	t.Parallel()
	for name, join := range map[string]func(t *testing.T, a, b, c retrybudget.Budget) retrybudget.Budget{
		"to the left": func(t *testing.T, a, b, c retrybudget.Budget) retrybudget.Budget {
			t.Helper()
			return both(t, both(t, a, b), c)
		},
		"to the right": func(t *testing.T, a, b, c retrybudget.Budget) retrybudget.Budget {
			t.Helper()
			return both(t, a, both(t, b, c))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, c := newTokenBucket(t, retrybudget.TokenBucketConfig{Initial: 10}), ownTokens(10), newTokenBucket(t, retrybudget.TokenBucketConfig{Initial: 3})
			all := join(t, a, b, c)
			assert.Equal(t, 3, takeAll(all, 10))
			assert.Equal(t, int64(7000), tokensIn(a))
			assert.Equal(t, int64(7), b.tokens.Load())
			assert.Equal(t, int64(1), b.refunded.Load(), "the fourth")
			assert.Equal(t, b.granted.Load(), b.settled.Load())
			tokens, capacity := level(t, all)
			assert.InDelta(t, 0, tokens, 0, "the smaller one")
			assert.InDelta(t, 20, capacity, 0)
		})
	}
}

func level(t testing.TB, b retrybudget.Budget) (tokens, capacity float64) {
	t.Helper()
	r, ok := b.(retrybudget.LevelReporter)
	require.True(t, ok)
	return r.Level()
}

func TestBoth_tellsBothEverything(t *testing.T) {
	t.Parallel()
	first, second := &budgetLedger{grants: 2}, &budgetLedger{grants: 1}
	b := both(t, first, second)
	b.RecordSuccess()
	b.RecordFailure(plain)
	require.True(t, b.TryTake(plain))
	b.Settle(plain, retrybudget.Answered)
	require.False(t, b.TryTake(plain))
	require.False(t, b.TryTake(plain), "the refunded one is not in the ledger's count")
	common := []string{"success", "failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 answered"}
	assert.Equal(t, append(common, "grant Unavailable 1", "settle Unavailable 1 refused", "refuse Unavailable 1"), first.read())
	assert.Equal(t, append(common[:4:4], "refuse Unavailable 1"), second.read(), "not asked when the first refuses")
}

// Of two budgets under load the smaller one is granted to the last token, and
// the other pays as much and not more.
func TestBoth_exactUnderContention(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ first, second, want int64 }{{100, 30, 30}, {30, 100, 30}, {50, 50, 50}, {0, 50, 0}, {50, 0, 0}} {
		for _, name := range []string{"buckets", "own first", "own second"} {
			bucket1 := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1000, Initial: int(tt.first)})
			bucket2 := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1000, Initial: int(tt.second)})
			own1, own2 := ownTokens(tt.first), ownTokens(tt.second)
			b, left1, left2 := both(t, bucket1, bucket2), func() int64 { return tokensIn(bucket1) / 1000 }, func() int64 { return tokensIn(bucket2) / 1000 }
			switch name {
			case "own first":
				b, left1 = both(t, own1, bucket2), own1.tokens.Load
			case "own second":
				b, left2 = both(t, bucket1, own2), own2.tokens.Load
			}
			var granted atomic.Int64
			parallel(64, func(int) {
				for range 50 {
					if b.TryTake(plain) {
						granted.Add(1)
						b.Settle(plain, retrybudget.Succeeded)
					}
				}
			})
			assert.Equal(t, tt.want, granted.Load(), "%s %+v", name, tt)
			assert.Equal(t, tt.first-tt.want, left1(), "%s %+v", name, tt)
			assert.Equal(t, tt.second-tt.want, left2(), "%s %+v", name, tt)
			for _, own := range []*ownBudget{own1, own2} {
				assert.Equal(t, own.granted.Load(), own.settled.Load(), "every grant settled once")
			}
		}
	}
}

// Whatever a budget of the application's own refuses, the other one is not
// charged for it, and deposits in the same moment are not lost.
func TestBoth_exactWithDepositsAndAMoodyBudget(t *testing.T) {
	t.Parallel()
	const initial = 100_000
	bucket := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 1_000_000, Initial: initial})
	moody := moodyBudget{new(ownBudget)}
	b := both(t, bucket, moody)
	var granted, given, price atomic.Int64
	parallel(32, func(int) {
		for range 2000 {
			switch rand.IntN(3) {
			case 0:
				b.RecordSuccess()
				given.Add(1)
			case 1:
				if b.TryTake(plain) {
					granted.Add(1)
					price.Add(1000)
					b.Settle(plain, retrybudget.Failed)
				}
			default:
				if b.TryTake(hinted) {
					granted.Add(1)
					price.Add(4000)
					b.Settle(hinted, retrybudget.Abandoned)
				}
			}
		}
	})
	assert.Equal(t, int64(initial*1000)+100*given.Load()-price.Load(), tokensIn(bucket))
	assert.Equal(t, granted.Load(), moody.settled.Load())
	assert.Equal(t, given.Load(), moody.successes.Load())
	assert.Positive(t, granted.Load())
}

// moodyBudget refuses by chance.
type moodyBudget struct{ *ownBudget }

func (moodyBudget) TryTake(retrybudget.Cause) bool { return rand.IntN(2) == 0 }

func TestBoth_level(t *testing.T) {
	t.Parallel()
	small := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 5, Initial: 5})
	large := newTokenBucket(t, retrybudget.TokenBucketConfig{Capacity: 50, Initial: 2})
	for _, tt := range []struct {
		name             string
		first, second    retrybudget.Budget
		tokens, capacity float64
	}{
		{"both report", small, large, 2, 5},
		{"first reports", small, ownTokens(1), 5, 5},
		{"second reports", ownTokens(1), large, 2, 50},
	} {
		tokens, capacity := level(t, both(t, tt.first, tt.second))
		assert.InDelta(t, tt.tokens, tokens, 0, tt.name)
		assert.InDelta(t, tt.capacity, capacity, 0, tt.name)
	}
}

func TestBoth_errors(t *testing.T) {
	t.Parallel()
	good := retrybudget.PerMethod(retrybudget.TokenBucketConfig{})
	bad := retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: -1})
	none := retrybudget.BudgetFactory(func(_, _ string) (retrybudget.Budget, error) { return nil, nil })
	failing := retrybudget.PerTarget(retrybudget.BudgetFunc(func() (retrybudget.Budget, error) { return nil, errors.New("no store") }))
	for _, tt := range []struct {
		name  string
		other retrybudget.BudgetFactory
		want  string
	}{
		{"nil factory", nil, "Both: nil BudgetFactory"},
		{"bad configuration", bad, "Capacity -1"},
		{"nil budget", none, "nil Budget"},
		{"failing", failing, "no store"},
		{"nil configuration", retrybudget.PerService(nil), "BudgetConfig is nil"},
		{"nil from a function", retrybudget.PerMethod(retrybudget.BudgetFunc(func() (retrybudget.Budget, error) { return nil, nil })), "nil Budget"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range []retrybudget.BudgetFactory{retrybudget.Both(good, tt.other), retrybudget.Both(tt.other, good)} {
				_, err := retrybudget.New(retrybudget.WithBudget(f))
				assert.ErrorContains(t, err, "retrybudget: WithBudget: ")
				assert.ErrorContains(t, err, tt.want)
			}
		})
	}
}
