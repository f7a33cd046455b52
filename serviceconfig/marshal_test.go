package serviceconfig_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

// What a service config can say comes back the same.
func TestMarshal_roundTrip(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":     ``,
		"default":     `default_policy { ` + retryText + ` }`,
		"timeout":     `default_policy { max_attempts: 1 timeout { nanos: 1500000 } }`,
		"methods":     `methods { names: ["/a.B/", "/a.B/C"] policy { ` + retryText + ` timeout { seconds: 3 } } } methods { names: "/a.B/D" policy { max_attempts: 1 } }`,
		"throttling":  `budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 10 token_ratio: 0.1 } }`,
		"all of it":   `default_policy { max_attempts: 1 } methods { names: "/a.B/" policy { ` + retryText + ` } } budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 1000 token_ratio: 0.001 } }`,
		"large":       `default_policy { max_attempts: 2147483647 retryable_codes: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] exponential_backoff { initial { nanos: 1 } max { seconds: 9223372036 } multiplier: 1000000 jitter: JITTER_A6 } }`,
		"odd letters": `methods { names: "/a<&>.\u00e4/\"" policy { max_attempts: 1 } }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := textOf(t, text)
			data, lost, err := serviceconfig.Marshal(cfg)
			require.NoError(t, err)
			assert.Empty(t, lost)
			again, err := serviceconfig.Parse(data)
			require.NoError(t, err)
			assertEqual(t, cfg, again)
		})
	}
}

func TestMarshal_text(t *testing.T) {
	t.Parallel()
	data, lost, err := serviceconfig.Marshal(textOf(t, `
		methods { names: ["/a.B/", "/a.B/C"] policy { `+retryText+` timeout { seconds: 3 } } }
		budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 10 token_ratio: 0.1 } }`))
	require.NoError(t, err)
	assert.Empty(t, lost)
	//nolint:testifylint // the layout counts
	assert.Equal(t, `{
  "methodConfig": [
    {
      "name": [
        {
          "service": "a.B"
        },
        {
          "service": "a.B",
          "method": "C"
        }
      ],
      "timeout": "3s",
      "retryPolicy": {
        "maxAttempts": 4,
        "initialBackoff": "0.100s",
        "maxBackoff": "1s",
        "backoffMultiplier": 1.5,
        "retryableStatusCodes": [
          "UNAVAILABLE"
        ]
      }
    }
  ],
  "retryThrottling": {
    "maxTokens": 10,
    "tokenRatio": 0.1
  }
}
`, string(data))
}

// What it cannot say, it says as well as it can, and names.
func TestMarshal_losses(t *testing.T) {
	t.Parallel()
	const (
		jitter   = "default_policy.exponential_backoff.jitter: gRPC's waits are a fifth longer or shorter"
		table    = "default_policy.retryable_codes: the table also retries RESOURCE_EXHAUSTED when the server says when to come back"
		internal = `retryable_codes: CODE_INTERNAL`
		back     = `exponential_backoff { initial { seconds: 1 } max { seconds: 1 } multiplier: 1 jitter: JITTER_A6 }`
	)
	for name, tt := range map[string]struct {
		config, want string
		lost         []string
	}{
		"defaults": {
			`default_policy {}`,
			`default_policy { max_attempts: 3 retryable_codes: CODE_UNAVAILABLE exponential_backoff { initial { nanos: 50000000 } max { seconds: 1 } multiplier: 2 jitter: JITTER_A6 } }`,
			[]string{jitter, table},
		},
		"a long initial": {
			`default_policy { ` + internal + ` exponential_backoff { initial { seconds: 5 } jitter: JITTER_NONE } }`,
			`default_policy { max_attempts: 3 ` + internal + ` exponential_backoff { initial { seconds: 5 } max { seconds: 5 } multiplier: 2 jitter: JITTER_A6 } }`,
			[]string{jitter},
		},
		"constant": {
			`default_policy { ` + internal + ` constant_backoff { seconds: 1 } }`, `default_policy { max_attempts: 3 ` + internal + ` ` + back + ` }`,
			[]string{"default_policy.constant_backoff: gRPC's waits are a fifth longer or shorter"},
		},
		"constant of 0": {
			`default_policy { ` + internal + ` constant_backoff {} }`,
			`default_policy { max_attempts: 3 ` + internal + ` exponential_backoff { initial { nanos: 1 } max { nanos: 1 } multiplier: 1 jitter: JITTER_A6 } }`,
			[]string{"default_policy.constant_backoff: written as 1 ns, the least there can be", "default_policy.constant_backoff: gRPC's waits are a fifth longer or shorter"},
		},
		"idempotent": {
			`default_policy { idempotency: IDEMPOTENCY_IDEMPOTENT idempotent_codes: [CODE_INTERNAL, CODE_ABORTED] ` + back + ` }`,
			`default_policy { max_attempts: 3 retryable_codes: [CODE_UNAVAILABLE, CODE_DEADLINE_EXCEEDED, CODE_ABORTED, CODE_INTERNAL] ` + back + ` }`,
			[]string{table, "default_policy.idempotency: left out, but for the codes that are retried because of it"},
		},
		"idempotent by its key": {
			`default_policy { idempotency: IDEMPOTENCY_NON_IDEMPOTENT idempotency_key: "k" ` + internal + ` idempotent_codes: CODE_ABORTED ` + back + ` }`,
			`default_policy { max_attempts: 3 retryable_codes: [CODE_INTERNAL, CODE_ABORTED] ` + back + ` }`,
			[]string{"default_policy.idempotency_key: left out"},
		},
		"idempotent_codes of others": {
			`default_policy { ` + internal + ` idempotent_codes: CODE_ABORTED ` + back + ` }`, `default_policy { max_attempts: 3 ` + internal + ` ` + back + ` }`,
			[]string{"default_policy.idempotent_codes: left out, since the policy does not say that the method is idempotent"},
		},
		"non-idempotent": {
			`default_policy { idempotency: IDEMPOTENCY_NON_IDEMPOTENT per_attempt_timeout { seconds: 1 } ` + back + ` }`, `default_policy { max_attempts: 1 }`,
			[]string{"default_policy.idempotency: written as no retries", "default_policy.exponential_backoff: left out", "default_policy.per_attempt_timeout: left out"},
		},
		"budgets": {
			`budgets { token_bucket {} } budgets { throttle { max_tokens: 9 token_ratio: 1 } } budgets { throttle { max_tokens: 8 token_ratio: 1 } scope: SCOPE_PER_TARGET }`,
			`budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 9 token_ratio: 1 } }`,
			[]string{"budgets[0]: a service config can only have one throttle", "budgets[1].scope: gRPC has one throttle per target", "budgets[2]: a service config can only have one throttle"},
		},
		"all the rest": {
			`strict_idempotency: true without_non_idempotent_retries: true mode: MODE_OFF attempt_header: "x" limits {} resolver_policies: true allow_unknown_methods: true server {}`, ``,
			[]string{
				"strict_idempotency: left out", "without_non_idempotent_retries: left out", "mode: left out", "attempt_header: left out",
				"limits: left out", "resolver_policies: left out", "allow_unknown_methods: left out", "server: left out",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, lost, err := serviceconfig.Marshal(textOf(t, tt.config))
			require.NoError(t, err)
			assert.Equal(t, tt.lost, lost)
			cfg, err := serviceconfig.Parse(data)
			require.NoError(t, err)
			assertEqual(t, textOf(t, tt.want), cfg)
		})
	}
}

func TestMarshal_refusesInvalidConfigs(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`methods { names: "a.B" policy {} }`:                                                                `methods[0].names[0] "a.B" is neither`,
		`methods { policy {} }`:                                                                             `methodConfig[0].name is null`,
		`default_policy { max_attempts: 0 }`:                                                                `maxAttempts 0 is not in`,
		`default_policy { retryable_codes: 99 }`:                                                            `"99" is not the name of a gRPC code`,
		`default_policy { exponential_backoff { multiplier: nan } }`:                                        `unsupported value: NaN`,
		`default_policy { timeout { nanos: -1 } }`:                                                          `timeout "-0.000000001s" is not positive`,
		`default_policy { timeout { seconds: 1 nanos: -1 } }`:                                               `timeout "invalid" is not a duration`,
		`default_policy { exponential_backoff { initial { seconds: 2 } max { seconds: 1 } } }`:              `maxBackoff 1s is below initialBackoff 2s`,
		`budgets { throttle { max_tokens: 2 token_ratio: 1 } }`:                                             `2 can never grant a retry`,
		`default_policy {} methods { names: ["/a.B/", "/a.B/"] policy { max_attempts: 1 } } mode: MODE_OFF`: `names the same as methodConfig[1].name[0]`,
	} {
		data, lost, err := serviceconfig.Marshal(textOf(t, config))
		if assert.ErrorContains(t, err, want, config) {
			assert.Regexp(t, "^retrybudget: ", err.Error())
		}
		assert.Nil(t, data)
		assert.Nil(t, lost)
	}
	data, lost, err := serviceconfig.Marshal(nil)
	require.NoError(t, err)
	assert.Equal(t, "{}\n", string(data))
	assert.Empty(t, lost)
}

// The fields of the messages that the writer knows: a new one must be either
// written or named as lost, which rest does, unless it is inside a message that
// is taken care of as a whole.
func TestMarshal_knowsAllFields(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 4, (&retrybudgetv1.ExponentialBackoff{}).ProtoReflect().Descriptor().Fields().Len())
	assert.Equal(t, 2, (&retrybudgetv1.MethodPolicy{}).ProtoReflect().Descriptor().Fields().Len())
	assert.Equal(t, 2, (&retrybudgetv1.Throttle{}).ProtoReflect().Descriptor().Fields().Len())
}
