package serviceconfig_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/serviceconfig"
)

// problems returns what an error of Parse joins, as "line path: problem".
func problems(t *testing.T, err error) (all []string) {
	t.Helper()
	many, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%v", err)
	for _, err := range many.Unwrap() {
		var e *serviceconfig.Error
		require.ErrorAs(t, err, &e)
		assert.Regexp(t, fmt.Sprintf("^retrybudget: service config, line %d: ", e.Line), err.Error())
		assert.Contains(t, err.Error(), e.Path)
		assert.True(t, strings.HasSuffix(err.Error(), e.Problem))
		all = append(all, fmt.Sprintf("%d %s: %s", e.Line, e.Path, e.Problem))
	}
	return all
}

// withPolicy returns a service config with a retryPolicy, of which one setting is
// replaced.
func withPolicy(key, value string) string {
	settings := []string{"maxAttempts", "4", "initialBackoff", `"0.1s"`, "maxBackoff", `"1s"`, "backoffMultiplier", "2", "retryableStatusCodes", `["UNAVAILABLE"]`}
	var parts []string
	for i := 0; i < len(settings); i += 2 {
		if settings[i] == key {
			settings[i+1] = value
		}
		if settings[i+1] != "" {
			parts = append(parts, fmt.Sprintf("%q: %s", settings[i], settings[i+1]))
		}
	}
	return `{"methodConfig": [{"name": [{}], "retryPolicy": {` + strings.Join(parts, ", ") + `}}]}`
}

func TestParse_refusesValuesOfRetryPolicy(t *testing.T) {
	t.Parallel()
	_, err := serviceconfig.Parse([]byte(withPolicy("", "")))
	require.NoError(t, err, "the ground of the cases")
	for _, tt := range []struct{ key, value, problem string }{
		{"maxAttempts", ``, "is missing"},
		{"maxAttempts", `null`, "is null, not a number"},
		{"maxAttempts", `"4"`, "is a string, not a number"},
		{"maxAttempts", `-1`, "-1 is not in 2..2147483647"},
		{"maxAttempts", `0`, "0 is not in 2..2147483647"},
		{"maxAttempts", `1`, "1 is not in 2..2147483647"},
		{"maxAttempts", `2147483648`, "2147483648 is not in 2..2147483647"},
		{"maxAttempts", `99999999999999999999`, "99999999999999999999 is not in 2..2147483647"},
		{"maxAttempts", `2.5`, "2.5 is not an integer"},
		{"maxAttempts", `1e1`, "1e1 is not an integer"},
		{"initialBackoff", ``, "is missing"},
		{"initialBackoff", `0.1`, "is a number, not a string"},
		{"initialBackoff", `"100ms"`, `"100ms" is not a duration in seconds, such as "0.1s"`},
		{"initialBackoff", `"1"`, `"1" is not a duration in seconds, such as "0.1s"`},
		{"initialBackoff", `""`, `"" is not a duration in seconds, such as "0.1s"`},
		{"initialBackoff", `"0.0000000001s"`, `"0.0000000001s" is not a duration in seconds, such as "0.1s"`},
		{"initialBackoff", `"0s"`, `"0s" is not positive`},
		{"initialBackoff", `"-1s"`, `"-1s" is not positive`},
		{"initialBackoff", `"-0.5s"`, `"-0.5s" is not positive`},
		{"maxBackoff", ``, "is missing"},
		{"maxBackoff", `"0s"`, `"0s" is not positive`},
		{"maxBackoff", `"0.05s"`, "50ms is below initialBackoff 100ms"},
		{"maxBackoff", `"9223372037s"`, `"9223372037s" is longer than 292 years`},
		{"maxBackoff", `"315576000001s"`, `"315576000001s" is not a duration in seconds, such as "0.1s"`},
		{"backoffMultiplier", ``, "is missing"},
		{"backoffMultiplier", `"2"`, "is a string, not a number"},
		{"backoffMultiplier", `0`, "0 is not in 1..1000000"},
		{"backoffMultiplier", `-1`, "-1 is not in 1..1000000"},
		{"backoffMultiplier", `0.5`, "0.5 is not in 1..1000000"},
		{"backoffMultiplier", `1000001`, "1000001 is not in 1..1000000"},
		{"backoffMultiplier", `1e999`, "1e999 is not in 1..1000000"},
		{"retryableStatusCodes", ``, "is missing"},
		{"retryableStatusCodes", `[]`, "is empty"},
		{"retryableStatusCodes", `"UNAVAILABLE"`, "is a string, not an array"},
	} {
		_, err := serviceconfig.Parse([]byte(withPolicy(tt.key, tt.value)))
		want := []string{"1 methodConfig[0].retryPolicy." + tt.key + ": " + tt.problem}
		if assert.Error(t, err, "%s %s", tt.key, tt.value) {
			assert.Equal(t, want, problems(t, err), "%s %s", tt.key, tt.value)
		}
	}
	for value, problem := range map[string]string{
		`"OK"`: "is OK, and a call that succeeded is not retried", `0`: "is OK, and a call that succeeded is not retried",
		`"ok"`: "is OK, and a call that succeeded is not retried", `17`: "17 is not in 1..16", `-1`: "-1 is not in 1..16",
		`"UNAVAIL"`: `"UNAVAIL" is not the name of a gRPC code`, `"UNSPECIFIED"`: `"UNSPECIFIED" is not the name of a gRPC code`,
		`"14"`: `"14" is not the name of a gRPC code`, `14.5`: "14.5 is not an integer", `null`: "is null, not the name or number of a code",
		`"CANCELED"`: `"CANCELED" is not the name of a gRPC code: did you mean CANCELLED?`, `"deadline exceeded"`: `"deadline exceeded" is not the name of a gRPC code: did you mean DEADLINE_EXCEEDED?`,
		`"CODE_ABORTED"`: `"CODE_ABORTED" is not the name of a gRPC code`,
	} {
		_, err := serviceconfig.Parse([]byte(withPolicy("retryableStatusCodes", `["ABORTED", `+value+`]`)))
		if assert.Error(t, err, value) {
			assert.Equal(t, []string{"1 methodConfig[0].retryPolicy.retryableStatusCodes[1]: " + problem}, problems(t, err))
		}
	}
}

// The ranges of retryThrottling hold with and without a retryPolicy beside it.
func TestParse_refusesValuesOfRetryThrottling(t *testing.T) {
	t.Parallel()
	never := " can never grant a retry: one failure leaves no more than half of it; the least is 3"
	for _, tt := range []struct{ throttling, key, problem string }{
		{`{"tokenRatio": 0.1}`, ".maxTokens", "is missing"},
		{`{"maxTokens": 10}`, ".tokenRatio", "is missing"},
		{`{"maxTokens": -1, "tokenRatio": 0.1}`, ".maxTokens", "-1 is not in 1..1000"},
		{`{"maxTokens": 0, "tokenRatio": 0.1}`, ".maxTokens", "0 is not in 1..1000"},
		{`{"maxTokens": 1, "tokenRatio": 0.1}`, ".maxTokens", "1" + never},
		{`{"maxTokens": 2, "tokenRatio": 0.1}`, ".maxTokens", "2" + never},
		{`{"maxTokens": 1001, "tokenRatio": 0.1}`, ".maxTokens", "1001 is not in 1..1000"},
		{`{"maxTokens": 10.5, "tokenRatio": 0.1}`, ".maxTokens", "10.5 is not an integer"},
		{`{"maxTokens": 10, "tokenRatio": -0.1}`, ".tokenRatio", "-0.1 is not in 0.001..1000"},
		{`{"maxTokens": 10, "tokenRatio": 0}`, ".tokenRatio", "0 is not in 0.001..1000"},
		{`{"maxTokens": 10, "tokenRatio": 0.0005}`, ".tokenRatio", "0.0005 is not in 0.001..1000"},
		{`{"maxTokens": 10, "tokenRatio": 1000.1}`, ".tokenRatio", "1000.1 is not in 0.001..1000"},
		{`{"maxTokens": 10, "tokenRatio": "NaN"}`, ".tokenRatio", "is a string, not a number"},
		{`{"maxTokens": 10, "tokenRatio": 0.1, "maxToken": 3}`, ".maxToken", "is unknown: did you mean maxTokens?"},
		{`{"maxTokens": 10, "tokenRatio": 0.1, "tokens": 3}`, ".tokens", "is unknown: known here are maxTokens, tokenRatio"},
		{`[]`, "", "is an array, not an object"},
		{`null`, "", "is null, not an object"},
	} {
		for _, beside := range []string{``, `"methodConfig": [{"name": [{}], ` + strings.ReplaceAll(retry, "\n", "") + `}], `} {
			_, err := serviceconfig.Parse([]byte(`{` + beside + `"retryThrottling": ` + tt.throttling + `}`))
			if assert.Error(t, err, tt.throttling) {
				assert.Equal(t, []string{"1 retryThrottling" + tt.key + ": " + tt.problem}, problems(t, err))
			}
		}
	}
}

// Settings under a wrong key or in a wrong place would be ignored by gRPC.
func TestParse_refusesKeysThatWouldBeIgnored(t *testing.T) {
	t.Parallel()
	policy := strings.ReplaceAll(retry, "\n", "")
	for config, want := range map[string]string{
		`{"methodConfigs": []}`:                       `methodConfigs: is unknown: did you mean methodConfig?`,
		`{"method_config": []}`:                       `method_config: is unknown: did you mean methodConfig?`,
		`{"methodconfig": []}`:                        `methodconfig: is unknown: did you mean methodConfig?`,
		`{"retryThrotling": {}}`:                      `retryThrotling: is unknown: did you mean retryThrottling?`,
		`{"retryPolicy": {}}`:                         `retryPolicy: is not read here: it would have no effect`,
		`{"timeout": "1s"}`:                           `timeout: is not read here: it would have no effect`,
		`{"maxAttempts": 3}`:                          `maxAttempts: is not read here: it would have no effect`,
		`{"MyRetries": 3}`:                            `MyRetries: is not read here: it would have no effect`,
		`{"client": {"java": [{"retryPolicy": {}}]}}`: `client.java[0].retryPolicy: is not read here: it would have no effect`,
		`{"x": [[{"backoff": 1}]]}`:                   `x[0][0].backoff: is not read here: it would have no effect`,
		`{"loadBalancingConfig": [{"rr": {}, "methodConfig": []}]}`: `loadBalancingConfig[0].methodConfig: is not read here: it would have no effect`,
		`{"healthCheckConfig": {"retryPolicy": {}}}`:                `healthCheckConfig.retryPolicy: is not read here: it would have no effect`,

		`{"methodConfig": [{"name": [{}], "retrypolicy": {}}]}`:            `methodConfig[0].retrypolicy: is unknown: did you mean retryPolicy?`,
		`{"methodConfig": [{"name": [{}], "retryPolicies": {}}]}`:          `methodConfig[0].retryPolicies: is not read here: it would have no effect`,
		`{"methodConfig": [{"name": [{}], "timeOut": "1s"}]}`:              `methodConfig[0].timeOut: is unknown: did you mean timeout?`,
		`{"methodConfig": [{"name": [{}], "maxAttempts": 3}]}`:             `methodConfig[0].maxAttempts: is not read here: it would have no effect`,
		`{"methodConfig": [{"name": [{}], "retryThrottling": {}}]}`:        `methodConfig[0].retryThrottling: is not read here: it would have no effect`,
		`{"methodConfig": [{"name": [{}], "perTryTimeout": "1s"}]}`:        `methodConfig[0].perTryTimeout: is not read here: it would have no effect`,
		`{"methodConfig": [{"name": [{}], "Name": []}]}`:                   `methodConfig[0].Name: is unknown: did you mean name?`,
		`{"methodConfig": [{"name": [{}], "hedgingPolicy": {}}]}`:          `methodConfig[0].hedgingPolicy: is not supported: no hedged attempts are sent`,
		`{"methodConfig": [{"names": [{}], ` + policy + `}]}`:              `methodConfig[0].name: is missing: the entry is for no method`,
		`{"methodConfig": [{"name": [], "timeout": "1s"}]}`:                `methodConfig[0].name: is missing: the entry is for no method`,
		`{"methodConfig": [{"name": [{"service": "a.B", "methd": "C"}]}]}`: `methodConfig[0].name[0].methd: is unknown: did you mean method?`,
		`{"methodConfig": [{"name": [{"method": "C"}]}]}`:                  `methodConfig[0].name[0]: has a method but no service`,
		`{"methodConfig": [{"name": [{"service": "/a.B"}]}]}`:              `methodConfig[0].name[0].service: "/a.B" contains a slash`,
		`{"methodConfig": [{"name": [{"service": 3}]}]}`:                   `methodConfig[0].name[0].service: is a number, not a string`,
		`{"methodConfig": [{"name": ["a.B"]}]}`:                            `methodConfig[0].name[0]: is a string, not an object`,
		`{"methodConfig": [{"name": {"service": "a.B"}}]}`:                 `methodConfig[0].name: is an object, not an array`,
		`{"methodConfig": [{"name": [{}]}, {"name": [{"service": ""}]}]}`:  `methodConfig[1].name[0]: names the same as methodConfig[0].name[0]`,
		`{"methodConfig": [{"name": [{}], "retryPolicy": []}]}`:            `methodConfig[0].retryPolicy: is an array, not an object`,
		`{"methodConfig": [{"name": [{}], "timeout": "100ms"}]}`:           `methodConfig[0].timeout: "100ms" is not a duration in seconds, such as "0.1s"`,
		`{"methodConfig": [{"name": [{}], "timeout": "0s"}]}`:              `methodConfig[0].timeout: "0s" is not positive`,
		`{"methodConfig": ["x"]}`:                                          `methodConfig[0]: is a string, not an object`,
		`{"methodConfig": {}}`:                                             `methodConfig: is an object, not an array`,
		`{"a b": {"retry": 1}}`:                                            `"a b".retry: is not read here: it would have no effect`,

		`{"methodConfig": [], "methodConfig": []}`:                             `methodConfig: is there twice`,
		`{"methodConfig": [{"name": [{}], "timeout": "1s", "timeout": "2s"}]}`: `methodConfig[0].timeout: is there twice`,

		// What the package config reads.
		`{"default_policy": {}}`:                      `default_policy: is unknown: this is a retrybudget configuration: use config.Load or config.Parse`,
		`{"x": 1, "defaultPolicy": {}, "methods": 1}`: `defaultPolicy: is unknown: this is a retrybudget configuration: use config.Load or config.Parse`,
		"mode: observe":                               `: is not JSON: this is a retrybudget configuration: use config.Load or config.Parse`,
		"# ours\nbudgets:\n- adaptive: {}\n":          `: is not JSON: this is a retrybudget configuration: use config.Load or config.Parse`,
		"methodConfig:\n  mode: 1\n":                  `: is not JSON: invalid character 'm' looking for beginning of value`,

		`[]`:          `: is an array, not an object`,
		`"x"`:         `: is a string, not an object`,
		`{`:           `: is not JSON: unexpected end of JSON input`,
		``:            `: is not JSON: unexpected end of JSON input`,
		`{} {}`:       `: is not JSON: invalid character '{' after top-level value`,
		"{\"a\xff\"}": `: is not valid UTF-8`,
		strings.Repeat(`[`, 101) + strings.Repeat(`]`, 101):             `: is nested more than 100 deep`,
		strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat(`}`, 9000): `: is nested more than 100 deep`,
	} {
		_, err := serviceconfig.Parse([]byte(config))
		if assert.Error(t, err, config) {
			assert.Equal(t, []string{"1 " + want}, problems(t, err), config)
		}
	}
}

// All that is wrong is said at once, in the order of the lines.
func TestParse_linesOfErrors(t *testing.T) {
	t.Parallel()
	_, err := serviceconfig.Parse([]byte(`{
  "retryThrottling": {
    "maxTokens": 2,
    "tokenRatio": 0
  },
  "methodConfig": [
    {
      "name": [{"service": "a.B"}],
      "retryPolicy": {
        "maxAttempts": 1,
        "initialBackoff": "100ms",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": [
          "UNAVAILABLE",
          "UNAVAIL"
        ],
        "jitter": 0.2
      }
    },
    {"timeout": "1s"}
  ]
}`))
	require.Error(t, err)
	assert.Equal(t, []string{
		"3 retryThrottling.maxTokens: 2 can never grant a retry: one failure leaves no more than half of it; the least is 3",
		"4 retryThrottling.tokenRatio: 0 is not in 0.001..1000",
		"10 methodConfig[0].retryPolicy.maxAttempts: 1 is not in 2..2147483647",
		`11 methodConfig[0].retryPolicy.initialBackoff: "100ms" is not a duration in seconds, such as "0.1s"`,
		`16 methodConfig[0].retryPolicy.retryableStatusCodes[1]: "UNAVAIL" is not the name of a gRPC code`,
		"18 methodConfig[0].retryPolicy.jitter: is unknown: known here are maxAttempts, initialBackoff, maxBackoff, backoffMultiplier, retryableStatusCodes",
		"21 methodConfig[1].name: is missing: the entry is for no method",
	}, problems(t, err))

	_, err = serviceconfig.Parse([]byte("{\n\"a\": 1,\n}"))
	assert.Equal(t, []string{"3 : is not JSON: invalid character '}' looking for beginning of object key string"}, problems(t, err))
}
