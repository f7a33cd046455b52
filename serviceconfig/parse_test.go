package serviceconfig_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/retrybudget/retrybudget"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

// textOf returns a Config from protobuf's text format.
func textOf(t testing.TB, text string) *retrybudgetv1.Config {
	t.Helper()
	cfg := &retrybudgetv1.Config{}
	require.NoError(t, prototext.Unmarshal([]byte(text), cfg))
	return cfg
}

// assertEqual compares two messages and shows them as text.
func assertEqual(t testing.TB, want, got *retrybudgetv1.Config) {
	t.Helper()
	if !proto.Equal(want, got) {
		assert.Equal(t, prototext.Format(want), prototext.Format(got))
	}
}

const retry = `"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s",
	"backoffMultiplier": 1.5, "retryableStatusCodes": ["UNAVAILABLE"]}`

const retryText = `max_attempts: 4 retryable_codes: CODE_UNAVAILABLE exponential_backoff {
	initial { nanos: 100000000 } max { seconds: 1 } multiplier: 1.5 jitter: JITTER_A6 }`

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ config, want string }{
		"empty":                 {`{}`, ``},
		"no methods":            {`{"methodConfig": []}`, ``},
		"all methods":           {`{"methodConfig": [{"name": [{}], ` + retry + `}]}`, `default_policy { ` + retryText + ` }`},
		"all methods, in full":  {`{"methodConfig": [{"name": [{"service": "", "method": ""}], ` + retry + `}]}`, `default_policy { ` + retryText + ` }`},
		"a service":             {`{"methodConfig": [{"name": [{"service": "a.B"}], ` + retry + `}]}`, `methods { names: "/a.B/" policy { ` + retryText + ` } }`},
		"a method":              {`{"methodConfig": [{"name": [{"service": "a.B", "method": "C"}], ` + retry + `}]}`, `methods { names: "/a.B/C" policy { ` + retryText + ` } }`},
		"several names":         {`{"methodConfig": [{"name": [{"service": "a.B"}, {}, {"service": "a.B", "method": "C"}], "timeout": "2s"}]}`, `default_policy { max_attempts: 1 timeout { seconds: 2 } } methods { names: ["/a.B/", "/a.B/C"] policy { max_attempts: 1 timeout { seconds: 2 } } }`},
		"several entries":       {`{"methodConfig": [{"name": [{"service": "a.B"}], ` + retry + `}, {"name": [{"service": "a.B", "method": "C"}]}]}`, `methods { names: "/a.B/" policy { ` + retryText + ` } } methods { names: "/a.B/C" policy { max_attempts: 1 } }`},
		"timeout and retries":   {`{"methodConfig": [{"name": [{}], "timeout": "1.000000001s", ` + retry + `}]}`, `default_policy { timeout { seconds: 1 nanos: 1 } ` + retryText + ` }`},
		"an entry for nothing":  {`{"methodConfig": [{"waitForReady": true}, {"name": []}]}`, ``},
		"throttling":            {`{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`, `budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 10 token_ratio: 0.1 } }`},
		"ratio of gRFC A6":      {`{"retryThrottling": {"maxTokens": 1000, "tokenRatio": 0.5466}}`, `budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 1000 token_ratio: 0.546 } }`},
		"ratio just below":      {`{"retryThrottling": {"maxTokens": 3, "tokenRatio": 0.2899999}}`, `budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 3 token_ratio: 0.289 } }`},
		"smallest ratio":        {`{"retryThrottling": {"maxTokens": 3, "tokenRatio": 1e-3}}`, `budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 3 token_ratio: 0.001 } }`},
		"largest ratio":         {`{"retryThrottling": {"maxTokens": 3, "tokenRatio": 1000}}`, `budgets { scope: SCOPE_PER_TARGET throttle { max_tokens: 3 token_ratio: 1000 } }`},
		"others' settings pass": {`{"loadBalancingPolicy": "round_robin", "loadBalancingConfig": [{"round_robin": {}}, {"mine": {"maxAttempts": 3}}], "healthCheckConfig": {"serviceName": "x"}, "methodConfig": [{"name": [{}], "waitForReady": true, "maxRequestMessageBytes": 1024, "maxResponseMessageBytes": "7", "x-note": ["by the shop team", {"since": 2024}]}], "x": null}`, `default_policy { max_attempts: 1 }`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := serviceconfig.Parse([]byte(tt.config))
			require.NoError(t, err)
			assertEqual(t, textOf(t, tt.want), cfg)
			cfg.AllowUnknownMethods = true
			_, err = retrybudget.New(retrybudget.WithConfig(cfg))
			assert.NoError(t, err)
		})
	}
}

// Codes are names in any case or numbers, each counted once.
func TestParse_codes(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]retrybudgetv1.Code{
		`["UNAVAILABLE", "unavailable", 14]`:   {retrybudgetv1.Code_CODE_UNAVAILABLE},
		`["Deadline_Exceeded", 1, 16]`:         {retrybudgetv1.Code_CODE_DEADLINE_EXCEEDED, retrybudgetv1.Code_CODE_CANCELLED, retrybudgetv1.Code_CODE_UNAUTHENTICATED},
		`["ABORTED", "INTERNAL", "DATA_LOSS"]`: {retrybudgetv1.Code_CODE_ABORTED, retrybudgetv1.Code_CODE_INTERNAL, retrybudgetv1.Code_CODE_DATA_LOSS},
	} {
		cfg, err := serviceconfig.Parse([]byte(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "1s",
			"maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": ` + list + `}}]}`))
		if assert.NoError(t, err, list) {
			assert.Equal(t, want, cfg.GetDefaultPolicy().GetRetryableCodes(), list)
		}
	}
}

// The cap of five attempts is only there for those who ask.
func TestParse_attempts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]uint32{"2": {2, 2}, "5": {5, 5}, "6": {6, 5}, "1000": {1000, 5}, "2147483647": {2147483647, 5}} {
		data := []byte(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": ` + text + `, "initialBackoff": "1s",
			"maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": [14]}}]}`)
		cfg, err := serviceconfig.Parse(data)
		require.NoError(t, err)
		assert.Equal(t, want[0], cfg.GetDefaultPolicy().GetMaxAttempts())
		cfg, err = serviceconfig.Parse(data, serviceconfig.CapAttempts())
		require.NoError(t, err)
		assert.Equal(t, want[1], cfg.GetDefaultPolicy().GetMaxAttempts())
	}
}

func TestParse_durations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1s": "1s", "0.1s": "100ms", "1.5s": "1.5s", "0.000000001s": "1ns", "3600s": "1h0m0s",
		"9223372036s": "2562047h47m16s",
	} {
		cfg, err := serviceconfig.Parse([]byte(`{"methodConfig": [{"name": [{}], "timeout": "` + text + `"}]}`))
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, cfg.GetDefaultPolicy().GetTimeout().AsDuration().String())
		}
	}
}
