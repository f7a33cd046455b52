package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/config"
)

// problems returns what an error of Parse joins, as "line path: problem".
func problems(t *testing.T, err error) (all []string) {
	t.Helper()
	many, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%v", err)
	for _, err := range many.Unwrap() {
		var e *config.Error
		require.ErrorAs(t, err, &e)
		assert.Regexp(t, "^retrybudget: config:", err.Error())
		assert.Contains(t, err.Error(), e.Path)
		assert.True(t, strings.HasSuffix(err.Error(), e.Problem))
		assert.Empty(t, e.File)
		all = append(all, fmt.Sprintf("%d %s: %s", e.Line, e.Path, e.Problem))
	}
	return all
}

func TestParse_refuses(t *testing.T) {
	t.Parallel()
	const (
		codes    = "CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED"
		whole    = " is not a whole number"
		duration = ` is not a duration in seconds, such as "0.1s"`
	)
	for file, want := range map[string]string{
		// The place of settings.
		"max_attempts: 3":                          "1 max_attempts: is unknown: known here are default_policy, methods, budgets, strict_idempotency, without_non_idempotent_retries, mode, attempt_header, limits, resolver_policies, allow_unknown_methods, server",
		`{"methodConfig": []}`:                     "1 methodConfig: is unknown: this is a gRPC service config: use serviceconfig.Parse",
		"retryThrottling: {}":                      "1 retryThrottling: is unknown: this is a gRPC service config: use serviceconfig.Parse",
		"limits: {methodConfig: []}":               "1 limits.methodConfig: is unknown: known here are max_server_delay, max_keys, replay_bytes_per_call, replay_bytes_total",
		"\nlimits:\n\n  maxkeys: 3":                "4 limits.maxkeys: is unknown: known here are max_server_delay, max_keys, replay_bytes_per_call, replay_bytes_total",
		"limits: {Max_Keys: 3}":                    "1 limits.Max_Keys: is unknown: known here are max_server_delay, max_keys, replay_bytes_per_call, replay_bytes_total",
		"budgets: [{unlimited: {a b: 1}}]":         `1 budgets[0].unlimited."a b": is unknown`,
		"limits: {1: 2}":                           "1 limits.1: is unknown: known here are max_server_delay, max_keys, replay_bytes_per_call, replay_bytes_total",
		"limits: {[a]: 2}":                         "1 limits: has a key that is a list",
		"limits: {<<: {max_keys: 2}}":              "1 limits: has a merge key (<<), which is not supported: repeat the values",
		"mode: observe\nlimits: {}\nmode: enforce": "3 mode: is there twice, first in line 1",
		"limits:\n  max_keys: 3\n  maxKeys: 3":     "3 limits.max_keys: is there twice, first in line 2",
		"default_policy:\n  constant_backoff: 1s\n  exponential_backoff: {}": "3 default_policy.exponential_backoff: is there beside constant_backoff: only one of them may be",
		"budgets:\n- adaptive: {}\n  token_bucket: {}":                       "3 budgets[0].token_bucket: is there beside adaptive: only one of them may be",

		// The kind of values.
		"[]":                                    "1 : is a list, not a mapping",
		"text":                                  `1 : is "text", not a mapping`,
		"7":                                     "1 : is 7, not a mapping",
		"":                                      "0 : is empty: {} stands for a configuration of defaults",
		"# comment\n":                           "0 : is empty: {} stands for a configuration of defaults",
		"null":                                  "0 : is empty: {} stands for a configuration of defaults",
		"mode: observe\n---\nmode: enforce":     "2 : has a second document",
		"budgets: [{token_bucket: }]":           "1 budgets[0].token_bucket: is empty: write {} for the defaults",
		"default_policy: {timeout: }":           "1 default_policy.timeout: is empty: leave it out for the default",
		"methods:":                              "1 methods: is empty: leave it out for the default",
		"limits:":                               "1 limits: is empty: write {} for the defaults",
		"limits: ~":                             "1 limits: is empty: write {} for the defaults",
		"limits: 3":                             "1 limits: is 3, not a mapping",
		"limits: [{}]":                          "1 limits: is a list, not a mapping",
		"methods: {}":                           "1 methods: is a mapping, not a list",
		"methods: []":                           "1 methods: is an empty list: leave it out for the default",
		"methods: [3]":                          "1 methods[0]: is 3, not a mapping",
		"methods: [null]":                       "1 methods[0]: is empty, not a mapping",
		"methods: [{names: /a.B/, policy: {}}]": `1 methods[0].names: is "/a.B/", not a list`,
		"methods: [{names: [3], policy: {}}]":   "1 methods[0].names[0]: 3 is not a text: put it in quotes",
		"methods: [{names: [~], policy: {}}]":   "1 methods[0].names[0]: empty is not a text: put it in quotes",
		"methods: [{names: [[]], policy: {}}]":  "1 methods[0].names[0]: a list is not a text: put it in quotes",
		"default_policy: {retryable_codes: []}": "1 default_policy.retryable_codes: is an empty list: leave it out for the default",
		"default_policy: {retryable_codes: UNAVAILABLE}":  `1 default_policy.retryable_codes: is "UNAVAILABLE", not a list`,
		"default_policy: {retryable_codes: [UNAVAIL]}":    `1 default_policy.retryable_codes[0]: "UNAVAIL" is not one of ` + codes,
		"default_policy: {retryable_codes: [CANCELED]}":   `1 default_policy.retryable_codes[0]: "CANCELED" is unknown: did you mean CANCELLED?`,
		"default_policy: {idempotency: nonidempotent}":    `1 default_policy.idempotency: "nonidempotent" is unknown: did you mean NON_IDEMPOTENT?`,
		"default_policy: {retryable_codes: [OK]}":         `1 default_policy.retryable_codes[0]: "OK" is not one of ` + codes,
		"default_policy: {retryable_codes: [1.5]}":        "1 default_policy.retryable_codes[0]: 1.5 is not one of " + codes,
		"default_policy: {retryable_codes: [4294967296]}": "1 default_policy.retryable_codes[0]: 4294967296 is not one of " + codes,
		"mode: false":                                 "1 mode: false is not one of ENFORCE, OBSERVE, OFF",
		"mode: {}":                                    "1 mode: a mapping is not one of ENFORCE, OBSERVE, OFF",
		"strict_idempotency: yes":                     `1 strict_idempotency: "yes" is not true or false`,
		"strict_idempotency: 1":                       "1 strict_idempotency: 1 is not true or false",
		"strict_idempotency: \"true\"":                `1 strict_idempotency: "true" is not true or false`,
		"attempt_header: true":                        "1 attempt_header: true is not a text: put it in quotes",
		"limits: {max_keys: \"3\"}":                   `1 limits.max_keys: "3"` + whole,
		"limits: {max_keys: -1}":                      "1 limits.max_keys: -1 is negative",
		"limits: {max_keys: 1.5}":                     "1 limits.max_keys: 1.5" + whole,
		"limits: {max_keys: 0x10}":                    "1 limits.max_keys: 0x10" + whole,
		"limits: {max_keys: 010}":                     "1 limits.max_keys: 010" + whole,
		"limits: {max_keys: 1_000}":                   "1 limits.max_keys: 1_000" + whole,
		"limits: {max_keys: 4294967296}":              "1 limits.max_keys: 4294967296 is too large",
		"limits: {max_keys: 1e10}":                    "1 limits.max_keys: 1e10 is too large",
		"limits: {max_keys: !!int a}":                 "1 limits.max_keys: a" + whole,
		"limits: {max_keys: !mine 3}":                 "1 limits.max_keys: 3" + whole,
		"budgets: [{token_bucket: {ratio: .nan}}]":    "1 budgets[0].token_bucket.ratio: .nan is not a number",
		"budgets: [{token_bucket: {ratio: -.inf}}]":   "1 budgets[0].token_bucket.ratio: -.inf is not a number",
		"budgets: [{token_bucket: {ratio: 1e999}}]":   `1 budgets[0].token_bucket.ratio: "1e999" is not a number`,
		"budgets: [{token_bucket: {ratio: \"0.1\"}}]": `1 budgets[0].token_bucket.ratio: "0.1" is not a number`,
		"default_policy: {timeout: 5}":                "1 default_policy.timeout: 5" + duration,
		"default_policy: {timeout: 5 s}":              `1 default_policy.timeout: "5 s"` + duration,
		"default_policy: {timeout: 100ms}":            `1 default_policy.timeout: "100ms" is not a duration in seconds: write "0.100s"`,
		"default_policy: {timeout: 2m}":               `1 default_policy.timeout: "2m" is not a duration in seconds: write "120s"`,
		"default_policy: {timeout: {seconds: 1}}":     "1 default_policy.timeout: a mapping" + duration,
		"default_policy: {timeout: 315576000001s}":    `1 default_policy.timeout: "315576000001s"` + duration,

		// What the library says of them, at their line.
		"default_policy:\n  max_attempts: 0":                                          "2 default_policy.max_attempts: 0 is not in 1..2147483647: leave it out for the default",
		"default_policy:\n  timeout:\n    -1s":                                        "2 default_policy.timeout: -1s is negative",
		"default_policy:\n  retryable_codes:\n  - ABORTED\n  - 17":                    "4 default_policy.retryable_codes[1]: 17 is not a gRPC code",
		"default_policy:\n  retryable_codes: [unspecified]":                           "2 default_policy.retryable_codes[0]: 0 is OK, and a call that succeeded is not retried",
		"methods:\n- names: [/a.B/]\n  policy: {}\n- names:\n  - /a.B/\n  policy: {}": `5 methods[1].names[0]: "/a.B/" is at methods[0].names[0] too`,
		"methods:\n- policy: {}":                                                      "2 methods[0].names: is empty: the policy would never be used",
		"mode: observe\nbudgets:\n- throttle:\n    token_ratio: 0.1":                  "3 budgets[0].throttle.max_tokens: is missing",
		"default_policy: &p\n  max_attempts: 2\nmethods:\n- names: [/a.B/]\n  policy: *p\n- names: [/a.B/C]\n  policy:\n    max_attempts: 0": "8 methods[1].policy.max_attempts: 0 is not in 1..2147483647: leave it out for the default",
	} {
		_, err := config.Parse([]byte(file))
		if assert.Error(t, err, file) {
			assert.Equal(t, []string{want}, problems(t, err), file)
		}
	}
}

// Syntax errors have their line; their text is the YAML library's.
func TestParse_refusesWhatIsNotYAML(t *testing.T) {
	t.Parallel()
	for file, line := range map[string]int{
		"mode: observe\nlimits: [1\nmode: 3": 3,
		"mode: [":                            2,
		"mode: \"observe":                    1,
		"limits:\n\tmax_keys: 3":             2,
		"mode: *none":                        1,
		"%YAML 3.0\n---\nmode: observe":      1,
		"{\"mode\": \"\\ud83d\\ude00\"}":     1,
		"mode: \xff":                         0,
	} {
		_, err := config.Parse([]byte(file))
		var e *config.Error
		if assert.ErrorAs(t, err, &e, "%q", file) {
			assert.Equal(t, line, e.Line, "%q: %v", file, err)
			assert.Empty(t, e.Path)
			assert.Regexp(t, "^is not YAML: [^ ]", e.Problem)
			assert.NotContains(t, e.Problem, "line ")
		}
	}
}

// Aliases cannot be used to make a small file large.
func TestParse_refusesABombOfAliases(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString("server: {attempt_headers: &h [")
	for range 500 {
		file.WriteString("x,")
	}
	file.WriteString("y]}\nmethods:\n")
	for range 500 {
		file.WriteString("- {names: *h, policy: {}}\n")
	}
	_, err := config.Parse([]byte(file.String()))
	require.Error(t, err)
	assert.ErrorContains(t, err, "is too much: aliases repeat it 10 times and more")
	assert.Less(t, len(problems(t, err)), 3)

	_, err = config.Parse([]byte("limits: &a\n  max_keys: *a\nmethods: &b [*b]\n"))
	require.Error(t, err, "values that contain themselves")
}

func TestParse_namesAllProblemsInOrder(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte("mode: never\nlimits:\n  max_keys: many\nmethod: {}\nserver: {hint_codes: [FAST]}\n"))
	var lines []string
	for _, p := range problems(t, err) {
		line, _, _ := strings.Cut(p, ":")
		lines = append(lines, line)
	}
	assert.Equal(t, []string{"1 mode", "3 limits.max_keys", "4 method", "5 server.hint_codes[0]"}, lines)
}

// A file of another kind has an error in each line: the first ones tell.
func TestParse_countsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte(strings.Repeat("GET /: 200\n", 5000)))
	all := problems(t, err)
	require.Len(t, all, 101)
	assert.Contains(t, all[99], `100 "GET /": is unknown`)
	assert.Equal(t, "101 : has 4900 more problems, from here on", all[100])
}
