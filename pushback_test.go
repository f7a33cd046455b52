package retrybudget_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

func TestPushback_values(t *testing.T) {
	t.Parallel()
	tests := []struct {
		values []string
		wait   time.Duration // before the retry
		reason retrybudget.Reason
	}{
		{[]string{"0"}, 0, retrybudget.NoReason},
		{[]string{"50"}, 50 * ms, retrybudget.NoReason},
		{[]string{"999"}, 999 * ms, retrybudget.NoReason},
		{[]string{"1000"}, 0, retrybudget.ReasonDeadline},
		{[]string{"30000"}, 0, retrybudget.ReasonDeadline}, // the longest that may be asked for
		{[]string{"30001"}, 0, retrybudget.ReasonPushback},
		{[]string{"2147483647"}, 0, retrybudget.ReasonPushback},
		{[]string{"2147483648"}, 0, retrybudget.ReasonPushback},
		{[]string{"9223372036855"}, 0, retrybudget.ReasonPushback},
		{[]string{"18446744073709"}, 0, retrybudget.ReasonPushback},
		{[]string{"-1"}, 0, retrybudget.ReasonPushback},
		{[]string{"-2147483648"}, 0, retrybudget.ReasonPushback},
		{[]string{"-0"}, 0, retrybudget.ReasonPushback},
		{[]string{""}, 0, retrybudget.ReasonPushback},
		{[]string{"abc"}, 0, retrybudget.ReasonPushback},
		{[]string{"5.0"}, 0, retrybudget.ReasonPushback},
		{[]string{"1e2"}, 0, retrybudget.ReasonPushback},
		{[]string{"0x10"}, 0, retrybudget.ReasonPushback},
		{[]string{"5 0"}, 0, retrybudget.ReasonPushback},
		{[]string{"+5"}, 0, retrybudget.ReasonPushback},
		{[]string{"007"}, 0, retrybudget.ReasonPushback},
		{[]string{"00"}, 0, retrybudget.ReasonPushback},
		{[]string{"10", "20"}, 0, retrybudget.ReasonPushback},
		{[]string{"10", "10"}, 0, retrybudget.ReasonPushback},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.values, ","), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Pushback(rpctest.Fail(codes.Unavailable, "shard 7 down"), test.values...), rpctest.OK())
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 2, Backoff: exact(100*ms, 1)}))
				cc := s.Dial(t, r.DialOptions()...)
				start := time.Now()

				err := rpctest.Call(after(t, time.Second), cc)

				assert.Equal(t, []retrybudget.Reason{test.reason}, journal.reasons())
				assert.Equal(t, test.wait, time.Since(start))
				if test.reason == retrybudget.NoReason {
					require.NoError(t, err)
					assert.Equal(t, []time.Duration{test.wait}, s.Gaps(""))
					assert.True(t, journal.retries[0].FromGuidance)
					return
				}
				assert.Equal(t, 1, s.Attempts(""))
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Equal(t, "shard 7 down", status.Convert(err).Message())
				assert.Equal(t, test.reason, errorOf(t, err).Reason)
				assert.Equal(t, test.reason == retrybudget.ReasonPushback, strings.Contains(err.Error(), "server pushback"))
			})
		})
	}
}

func TestPushback_stopsAtTheClientsOwnLimits(t *testing.T) {
	t.Parallel()
	soon := rpctest.Pushback(rpctest.Unavailable(), "1")
	tests := []struct {
		name     string
		steps    []rpctest.Step
		grants   int
		attempts int
		code     codes.Code
		ledger   []string
	}{
		{"attempts", []rpctest.Step{soon}, -1, 3, codes.Unavailable, []string{
			"failure Unavailable 1", "grant Unavailable 1", "settle Unavailable 1 failed",
			"failure Unavailable 2", "grant Unavailable 2", "settle Unavailable 2 failed", "failure Unavailable 3",
		}},
		{"budget", []rpctest.Step{soon}, 0, 1, codes.Unavailable, []string{"failure Unavailable 1", "refuse Unavailable 1"}},
		{"code", []rpctest.Step{rpctest.Pushback(rpctest.Fail(codes.NotFound, ""), "10"), rpctest.OK()}, -1, 1, codes.NotFound, nil},
		{"veto", []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "-1")}, -1, 1, codes.Unavailable, []string{"failure Unavailable 1 veto"}},
		{"veto of a code that is not retryable", []rpctest.Step{rpctest.Pushback(rpctest.Fail(codes.NotFound, ""), "-1")}, -1, 1, codes.NotFound, []string{"failure NotFound 1 veto"}},
		{"delay too long", []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "30001")}, -1, 1, codes.Unavailable, []string{"failure Unavailable 1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.steps...)
				ledger := &budgetLedger{grants: test.grants}
				r := newRetrier(t, ledger.option(), retrybudget.WithPolicy(retrybudget.Policy{RetryableCodes: []codes.Code{codes.Unavailable}}))

				err := rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...))

				assert.Equal(t, test.code, status.Code(err))
				assert.Equal(t, test.attempts, s.Attempts(""))
				assert.Equal(t, test.ledger, ledger.read())
			})
		})
	}
}

func TestPushback_thatCannotFitEndsTheCallAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Pushback(rpctest.Fail(codes.Unavailable, "shard 7 down"), "5000"))
		ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
		cc := s.Dial(t, newRetrier(t, ledger.option(), retrybudget.WithObserver(journal)).DialOptions()...)
		start := time.Now()

		err := rpctest.Call(after(t, time.Second), cc)

		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, s.Attempts(""))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, "shard 7 down", status.Convert(err).Message())
		assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonDeadline}, journal.reasons())
		assert.Equal(t, []string{"failure Unavailable 1"}, ledger.read(), "no token spent")
	})
}

// A server that asks for more than the client allows is told no, aloud: never a
// shorter wait, and never the whole one.
func TestPushback_delayAboveTheLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		step   rpctest.Step
		limit  time.Duration // 0: the default of 30 s
		text   string        // empty: retried
		waited time.Duration
	}{
		{"RetryInfo above", rpctest.RetryInfo(codes.Unavailable, 30*time.Second), 15 * time.Second, "30s", 0},
		{"RetryInfo just above the default", rpctest.RetryInfo(codes.Unavailable, 30*time.Second+1), 0, "30.000000001s", 0},
		{"pushback above", rpctest.Pushback(rpctest.Unavailable(), "15001"), 15 * time.Second, "15.001s", 0},
		{"pushback at the limit", rpctest.Pushback(rpctest.Unavailable(), "15000"), 15 * time.Second, "", 15 * time.Second},
		{"pushback wins over RetryInfo above", rpctest.Pushback(rpctest.RetryInfo(codes.Unavailable, time.Hour), "20"), 0, "", 20 * ms},
		{"pushback at a raised limit", rpctest.Pushback(rpctest.Unavailable(), "2147483647"), 1000 * time.Hour, "", 2147483647 * ms},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, test.step, rpctest.OK())
				journal := &callJournal{}
				opts := []retrybudget.Option{retrybudget.WithObserver(journal)}
				if test.limit > 0 {
					opts = append(opts, retrybudget.WithMaxServerDelay(test.limit))
				}
				cc := s.Dial(t, newRetrier(t, opts...).DialOptions()...)
				start := time.Now()

				err := rpctest.Call(t.Context(), cc)

				assert.Equal(t, test.waited, time.Since(start))
				if test.text == "" {
					require.NoError(t, err)
					assert.Equal(t, 2, s.Attempts(""))
					return
				}
				assert.Equal(t, 1, s.Attempts(""))
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.ErrorIs(t, err, retrybudget.ErrPushback)
				assert.ErrorContains(t, err, test.text)
				assert.Equal(t, []retrybudget.Reason{retrybudget.ReasonPushback}, journal.reasons())
			})
		})
	}
}

// The wait that a server asks for by RetryInfo is the least; a longer backoff
// stands.
func TestPushback_retryInfoIsTheLeastWait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		asked, atLeast, atMost time.Duration
		guided                 bool
	}{
		"longer than the backoff":  {300 * ms, 300 * ms, 360 * ms, true},
		"shorter than the backoff": {50 * ms, 100 * ms, 100 * ms, false},
		"zero":                     {0, 100 * ms, 100 * ms, false},
		"negative":                 {-5 * time.Second, 100 * ms, 100 * ms, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.RetryInfo(codes.Unavailable, test.asked), rpctest.OK())
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*ms, 1)}))

				require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

				gap := s.Gaps("")[0]
				assert.GreaterOrEqual(t, gap, test.atLeast)
				assert.LessOrEqual(t, gap, test.atMost)
				assert.Equal(t, gap, journal.retries[0].Wait)
				assert.Equal(t, test.guided, journal.retries[0].FromGuidance, "whether the server set the wait")
			})
		})
	}
}

func TestPushback_backoffStartsAgainAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.Unavailable(), rpctest.Pushback(rpctest.Unavailable(), "700"), rpctest.Unavailable(), rpctest.OK())
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 5, Backoff: exact(100*ms, 2)}))

		require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		assert.Equal(t, []time.Duration{100 * ms, 200 * ms, 700 * ms, 100 * ms}, s.Gaps(""))
	})
}
