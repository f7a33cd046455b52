package retrybudget_test

import (
	"errors"
	"fmt"
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

// After its first 16 successes a method is measured only one time in 16, by
// chance, and a call without options takes a shorter way than before. These
// tests make so many calls that both ways are taken, and see no difference.

const warmCalls = 64

// warmUp makes the first successes of the test's methods.
func warmUp(t *testing.T, s *rpctest.Server, cc *grpc.ClientConn) {
	t.Helper()
	for _, method := range []string{rpctest.Method, otherMethod} {
		s.Script(method, rpctest.OK())
		for i := range 16 {
			require.NoError(t, rpctest.CallMethod(rpctest.WithCallID(t.Context(), fmt.Sprint("warm", i)), cc, method))
		}
	}
}

func TestWarm_retriesAsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		ledger := &budgetLedger{grants: -1}
		r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*ms, 2)}))
		cc := s.Dial(t, r.DialOptions()...)
		warmUp(t, s, cc)
		s.Script(rpctest.Method,
			rpctest.WithHeader(rpctest.WithTrailer(rpctest.Unavailable(), "y", "1"), "x", "1"),
			rpctest.Pushback(rpctest.Unavailable(), "30"), rpctest.WithHeader(rpctest.OK(), "x", "3"))
		before := len(ledger.read())

		for i := range warmCalls {
			id := fmt.Sprint(i)
			var header, trailer metadata.MD
			require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), id), cc, grpc.Header(&header), grpc.Trailer(&trailer)))
			assert.Equal(t, []time.Duration{100 * ms, 30 * ms}, s.Gaps(id))
			for n, e := range s.Entries(id) {
				want := []string(nil)
				if n > 0 {
					want = []string{fmt.Sprint(n)}
				}
				assert.Equal(t, want, e.MD.Get(attemptHeader))
			}
			assert.Equal(t, []string{"3"}, header.Get("x"))
			assert.Empty(t, trailer.Get("y"))
		}
		lines := ledger.read()[before:]
		once := []string{
			"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed",
			"failure Unavailable 2", "grant Unavailable 2", "settle Unavailable 2 succeeded",
		}
		require.Len(t, lines, warmCalls*len(once))
		for i, line := range lines {
			assert.Equal(t, once[i%len(once)], line)
		}
	})
}

func TestWarm_callsWithoutARetry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		step   rpctest.Step
		opts   []retrybudget.Option
		code   codes.Code
		ledger []string
		own    bool // the library's own error
	}{
		{"OK", rpctest.OK(), nil, codes.OK, []string{"success"}, false},
		{"not retryable", rpctest.Fail(codes.NotFound, ""), nil, codes.NotFound, nil, false},
		{"veto", rpctest.Pushback(rpctest.Unavailable(), "-1"), nil, codes.Unavailable, []string{"failure Unavailable 1 veto"}, true},
		{"budget", rpctest.Unavailable(), nil, codes.Unavailable, []string{"failure Unavailable 1", "refuse Unavailable 1"}, true},
		{"off", rpctest.Unavailable(), []retrybudget.Option{retrybudget.WithMode(retrybudget.Off)}, codes.Unavailable, nil, false},
		{"a success of the application's", rpctest.Fail(codes.NotFound, ""), []retrybudget.Option{
			retrybudget.WithSuccess(func(_ retrybudget.CallInfo, err error) bool { return status.Code(err) == codes.NotFound }),
		}, codes.NotFound, []string{"success"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				ledger := &budgetLedger{}
				var inner error
				cc := s.Dial(t, with(newRetrier(t, append(test.opts, ledger.option())...), func(a attemptSeen) error {
					inner = a.send(a.ctx)
					return inner
				})...)
				warmUp(t, s, cc)
				s.Script(rpctest.Method, test.step)
				for range warmCalls {
					before := len(ledger.read())

					err := rpctest.Call(t.Context(), cc)

					assert.Equal(t, test.code, status.Code(err))
					assert.ElementsMatch(t, test.ledger, ledger.read()[before:])
					_, own := errors.AsType[*retrybudget.Error](err)
					assert.Equal(t, test.own, own)
					if !own && err != nil {
						assert.Same(t, inner, err)
					}
				}
			})
		})
	}
}

func TestWarm_nestedTwiceAndWithOptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		r := newRetrier(t)
		opts := append(r.DialOptions(), grpc.WithChainUnaryInterceptor(r.UnaryClientInterceptor(), inside(callsOther)))
		cc := s.Dial(t, opts...)
		warmUp(t, s, cc)
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK())
		entries := len(s.Entries(""))

		for i := range warmCalls {
			finished := 0
			opts := [][]grpc.CallOption{nil, {grpc.OnFinish(func(error) { finished++ })}, {retrybudget.CallMaxAttempts(3)}}[i%3]
			require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), fmt.Sprint(i)), cc, opts...))
			if i%3 == 1 {
				assert.Equal(t, 1, finished)
			}
		}

		for i, e := range s.Entries("")[entries:] {
			n := i % 6 // three attempts, each after a call of the other method
			assert.Equal(t, n%2 == 0, e.Method == otherMethod)
			want := []string(nil)
			if n > 1 && n%2 == 1 {
				want = []string{fmt.Sprint(n / 2)}
			}
			assert.Equal(t, want, e.MD.Get(attemptHeader))
		}
		assert.Len(t, s.Entries(""), entries+6*warmCalls)
	})
}

func TestWarm_sameRetrierTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		ledger := &budgetLedger{grants: -1}
		r := newRetrier(t, ledger.option())
		cc := s.Dial(t, append(r.DialOptions(), grpc.WithChainUnaryInterceptor(r.UnaryClientInterceptor()))...)
		warmUp(t, s, cc)
		before := len(ledger.read())
		for range warmCalls {
			require.NoError(t, rpctest.Call(t.Context(), cc))
		}
		assert.Len(t, ledger.read(), before+warmCalls, "one deposit for each call")

		s.Script(rpctest.Method, rpctest.Unavailable())
		for i := range warmCalls {
			id := fmt.Sprint(i)
			require.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), id), cc))
			assert.Equal(t, 3, s.Attempts(id))
		}
	})
}

// What a policy or an observer asks of every first attempt is done for each.
func TestWarm_policies(t *testing.T) {
	t.Parallel()
	journal := &callJournal{}
	keys := map[string]bool{}
	tests := []struct {
		name  string
		opt   retrybudget.Option
		check func(t *testing.T, calls int, e rpctest.Entry)
	}{
		{"IdempotencyKey", retrybudget.WithPolicy(retrybudget.Policy{IdempotencyKey: "key"}), func(t *testing.T, calls int, e rpctest.Entry) {
			t.Helper()
			require.Len(t, e.MD.Get("key"), 1)
			keys[e.MD.Get("key")[0]] = true
			assert.Len(t, keys, calls)
		}},
		{"Timeout", retrybudget.WithPolicy(retrybudget.Policy{Timeout: 100 * ms}), func(t *testing.T, _ int, e rpctest.Entry) {
			t.Helper()
			assert.Equal(t, 100*ms, e.Left)
		}},
		{"PerAttemptTimeout", retrybudget.WithPolicy(retrybudget.Policy{PerAttemptTimeout: 100 * ms}), func(t *testing.T, _ int, e rpctest.Entry) {
			t.Helper()
			assert.Equal(t, 100*ms, e.Left)
		}},
		{"observer", retrybudget.WithObserver(journal), func(t *testing.T, calls int, _ rpctest.Entry) {
			t.Helper()
			assert.Len(t, journal.reasons(), 32+calls)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				cc := s.Dial(t, newRetrier(t, test.opt).DialOptions()...)
				warmUp(t, s, cc)
				for i := range warmCalls {
					require.NoError(t, rpctest.Call(t.Context(), cc))
					all := s.Entries("")
					test.check(t, i+1, all[len(all)-1])
				}
			})
		})
	}
}

func TestWarm_panics(t *testing.T) {
	t.Parallel()
	for at, want := range map[int][]string{
		1: nil,
		2: {"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"},
	} {
		t.Run(fmt.Sprint("attempt ", at), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				ledger := &budgetLedger{grants: -1}
				calm := true
				cc := s.Dial(t, with(newRetrier(t, ledger.option()), func(a attemptSeen) error {
					if !calm && retrybudget.AttemptFromContext(a.ctx) == at {
						panic("inner bug")
					}
					return a.send(a.ctx)
				})...)
				warmUp(t, s, cc)
				calm = false
				s.Script(rpctest.Method, rpctest.Unavailable())
				for range warmCalls {
					before := len(ledger.read())
					assert.PanicsWithValue(t, "inner bug", func() { _ = rpctest.Call(t.Context(), cc) })
					assert.ElementsMatch(t, want, ledger.read()[before:])
				}
			})
		})
	}
}

// An observer that panics leaves no grant open either.
func TestWarm_observerPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		ledger := &budgetLedger{grants: -1}
		cc := s.Dial(t, newRetrier(t, ledger.option(), retrybudget.WithObserver(panicky{})).DialOptions()...)

		assert.PanicsWithValue(t, "observer bug", func() { _ = rpctest.Call(t.Context(), cc) })

		assert.Equal(t, []string{"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed"}, ledger.read())
	})
}

type panicky struct{ retrybudget.NopObserver }

func (panicky) RetrySent(retrybudget.RetryEvent) { panic("observer bug") }

// One success in 16 is enough to see that a dependency became faster.
func TestWarm_latencyIsStillSampled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(60*ms, 1)})).DialOptions()...)
		s.Script(rpctest.Method, rpctest.After(100*ms, rpctest.OK()))
		for i := range 16 {
			require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), fmt.Sprint("slow", i)), cc))
		}
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		require.ErrorIs(t, rpctest.Call(rpctest.WithCallID(after(t, 150*ms), "slow"), cc), retrybudget.ErrDeadline)

		s.Script(rpctest.Method, rpctest.OK())
		for i := range 600 { // about 37 of them are measured; one would do
			require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), fmt.Sprint("fast", i)), cc))
		}
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		assert.NoError(t, rpctest.Call(rpctest.WithCallID(after(t, 150*ms), "fast"), cc))
	})
}
