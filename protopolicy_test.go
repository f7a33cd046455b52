package retrybudget_test

import (
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

// Each setting of a policy reaches a call that fails.
func TestWithConfig_policiesOnTheWire(t *testing.T) {
	t.Parallel()
	aborted, internal := rpctest.Fail(codes.Aborted, "no"), rpctest.Fail(codes.Internal, "no")
	for _, tt := range []struct {
		name, config string
		step         rpctest.Step
		gaps         []time.Duration
	}{
		{"max_attempts", `max_attempts: 4 constant_backoff {}`, rpctest.Unavailable(), []time.Duration{0, 0, 0}},
		{"max_attempts 1", `max_attempts: 1`, rpctest.Unavailable(), nil},
		{"constant_backoff", `constant_backoff { nanos: 250000000 }`, rpctest.Unavailable(), []time.Duration{250 * ms, 250 * ms}},
		{
			"exponential_backoff", `max_attempts: 4 exponential_backoff { initial { nanos: 100000000 } multiplier: 3 max { nanos: 500000000 } jitter: JITTER_NONE }`,
			rpctest.Unavailable(),
			[]time.Duration{100 * ms, 300 * ms, 500 * ms},
		},
		{"retryable_codes", `retryable_codes: CODE_ABORTED constant_backoff {}`, aborted, []time.Duration{0, 0}},
		{"retryable_codes without it", `retryable_codes: CODE_ABORTED`, rpctest.Unavailable(), nil},
		{"idempotency", `idempotency: IDEMPOTENCY_IDEMPOTENT constant_backoff {}`, aborted, []time.Duration{0, 0}},
		{"no idempotency", `idempotency: IDEMPOTENCY_NON_IDEMPOTENT`, rpctest.Unavailable(), nil},
		{"idempotent_codes", `idempotency: IDEMPOTENCY_IDEMPOTENT idempotent_codes: CODE_INTERNAL constant_backoff {}`, internal, []time.Duration{0, 0}},
		{"idempotent_codes of others", `idempotent_codes: CODE_INTERNAL`, internal, nil},
		{
			"per_attempt_timeout", `per_attempt_timeout { seconds: 2 } constant_backoff { seconds: 1 } idempotency: IDEMPOTENCY_IDEMPOTENT`,
			rpctest.Hang(),
			[]time.Duration{3 * time.Second, 3 * time.Second},
		},
		{"timeout", `timeout { seconds: 5 } constant_backoff { seconds: 3 }`, rpctest.Unavailable(), []time.Duration{3 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.step)
				cc := s.Dial(t, newRetrier(t, withConfig(t, "default_policy { "+tt.config+" }")).DialOptions()...)

				require.Error(t, rpctest.Call(t.Context(), cc))

				assert.Equal(t, tt.gaps, s.Gaps(""))
			})
		})
	}
}

func TestWithConfig_idempotencyKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Aborted, "no"))
		cc := s.Dial(t, newRetrier(t, withConfig(t, `default_policy { idempotency_key: "Request-ID" }`)).DialOptions()...)

		require.Error(t, rpctest.Call(t.Context(), cc))

		keys := headersOf(s, rpctest.Method, "request-id")
		require.Len(t, keys, 3, "ABORTED is retried: the method counts as idempotent")
		assert.Len(t, keys[0], 1)
		assert.Equal(t, keys[0], keys[1])
		assert.Equal(t, keys[0], keys[2])
	})
}

// What a Config says beside policies and budgets.
func TestWithConfig_settingsOfAllCalls(t *testing.T) {
	t.Parallel()
	told := rpctest.RetryInfo(codes.ResourceExhausted, 10*ms)
	for _, tt := range []struct {
		name, config string
		step         rpctest.Step
		attempts     int
		reason       retrybudget.Reason
	}{
		{"nothing", ``, rpctest.Unavailable(), 3, retrybudget.ReasonMaxAttempts},
		{"MODE_ENFORCE", `mode: MODE_ENFORCE`, rpctest.Unavailable(), 3, retrybudget.ReasonMaxAttempts},
		{"MODE_OFF", `mode: MODE_OFF`, rpctest.Unavailable(), 1, retrybudget.ReasonDisabled},
		{"strict_idempotency", `strict_idempotency: true`, rpctest.Unavailable(), 1, retrybudget.ReasonNotRetryable},
		{"told when, non-idempotent", `default_policy { idempotency: IDEMPOTENCY_NON_IDEMPOTENT }`, told, 3, retrybudget.ReasonMaxAttempts},
		{"without_non_idempotent_retries", `without_non_idempotent_retries: true default_policy { idempotency: IDEMPOTENCY_NON_IDEMPOTENT }`, told, 1, retrybudget.ReasonNotRetryable},
		{"max_server_delay kept", `limits { max_server_delay { nanos: 20000000 } }`, told, 3, retrybudget.ReasonMaxAttempts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.step)
				journal := &callJournal{}
				cc := s.Dial(t, newRetrier(t, withConfig(t, tt.config), retrybudget.WithObserver(journal)).DialOptions()...)

				require.Error(t, rpctest.Call(t.Context(), cc))

				assert.Equal(t, tt.attempts, s.Attempts(""))
				assert.Equal(t, []retrybudget.Reason{tt.reason}, journal.reasons())
			})
		})
	}
}

// A server that asks for a longer wait than the file allows ends the call at
// once, by name, without any wait.
func TestWithConfig_serverDelayAboveTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.RetryInfo(codes.Unavailable, 30*time.Second), rpctest.OK())
		cc := s.Dial(t, newRetrier(t, withConfig(t, `limits { max_server_delay { seconds: 15 } }`)).DialOptions()...)
		start := time.Now()

		err := rpctest.Call(t.Context(), cc)

		assert.Zero(t, time.Since(start))
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.ErrorIs(t, err, retrybudget.ErrPushback)
		assert.ErrorContains(t, err, "30s is longer than the limit of 15s")
		assert.Equal(t, 1, s.Attempts(""))
	})
}

func TestWithConfig_observe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		journal := &callJournal{}
		r, err := retrybudget.New(withConfig(t, `mode: MODE_OBSERVE`), retrybudget.WithObserver(journal))
		require.NoError(t, err)

		require.NoError(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)), "over an empty bucket")

		require.Len(t, journal.refusals, 1)
		assert.True(t, journal.refusals[0].Observed)
	})
}

// A stream that may keep nothing is not retried once it has sent something.
func TestWithConfig_replayLimits(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]int{
		``:                                    3,
		`limits { replay_bytes_per_call: 3 }`: 1,
		`limits { replay_bytes_total: 3 }`:    1,
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Streams(streamMethod, reading(1, failing(status.Error(codes.Unavailable, "down"))))
				cc := s.Dial(t, newRetrier(t, withConfig(t, config)).DialOptions()...)
				cs := open(t.Context(), t, cc, clientStream)
				sendAll(t, cs, "hello")

				_, err := recvOne(cs)

				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Equal(t, want, s.Attempts(""))
			})
		})
	}
}
