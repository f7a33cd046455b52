package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

var update = flag.Bool("update", false, "write what the program prints into testdata/golden")

// What the program prints is part of its interface: a change must be seen.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"check.txt":    {"check", "testdata/retrybudget.yaml", "testdata/dangerous.yaml", "testdata/broken.yaml", "testdata/service-config.json"},
		"check.json":   {"check", "-json", "testdata/retrybudget.yaml", "testdata/dangerous.yaml", "testdata/broken.yaml", "testdata/service-config.json"},
		"convert.json": {"convert", "-json", "testdata/retrybudget.yaml"},
		"back.json":    {"convert", "-json", "testdata/service-config.json"},
		"explain.txt":  {"explain", service + "GetStock", "testdata/retrybudget.yaml"},
		"explain.json": {"explain", "-json", service + "GetStock", "testdata/retrybudget.yaml"},
		"plan.txt":     {"plan", "-layers", "3,3,3", "-budget", "0.1"},
		"plan.json":    {"plan", "-layers", "3,3,3", "-budget", "0.1", "-json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runWith("", args...)
			if strings.HasSuffix(name, ".json") {
				assert.True(t, json.Valid([]byte(got.out)))
			}
			golden := filepath.Join("testdata", "golden", name)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got.out), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), got.out)
		})
	}
}

// findingsOf returns the lines of check for a text, without file and summary.
func findingsOf(t *testing.T, text string, flags ...string) (found []string, code int) {
	t.Helper()
	got := runWith(text, append(append([]string{"check"}, flags...), "-")...)
	require.Empty(t, got.errors)
	for _, line := range lines(got.out) {
		if rest, ok := strings.CutPrefix(line, "<stdin>:"); ok && strings.HasSuffix(rest, "]") {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found, got.code
}

// Each rule fires where it should, with its place, and not beside it.
func TestCheck_rules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text  string
		flags []string
		want  []string // the lines, up to the first that is not compared in full
		code  int
	}{
		"defaults":      {`{}`, nil, nil, 0},
		"reasonable":    {"default_policy: {max_attempts: 3, timeout: 2s}\n", nil, nil, 0},
		"unknown key":   {"x: 1\n", nil, []string{"1: error: x is unknown: known here are"}, 1},
		"out of range":  {"\ndefault_policy:\n  max_attempts: 0\n", nil, []string{"3: error: default_policy.max_attempts 0 is not in 1..2147483647"}, 1},
		"empty codes":   {"default_policy:\n  retryable_codes: []\n", nil, []string{"2: error: default_policy.retryable_codes is an empty list"}, 1},
		"no tokens":     {"budgets:\n- token_bucket:\n    capacity: 0\n", nil, []string{"3: error: budgets[0].token_bucket.capacity 0 is not in 1.."}, 1},
		"tiny ratio":    {"budgets:\n- token_bucket: {ratio: 0.0001}\n", nil, []string{"2: error: budgets[0].token_bucket.ratio 0.0001 is not a whole number of thousandths"}, 1},
		"not YAML":      {"a: b: c", nil, []string{"1: error: is not YAML: "}, 1},
		"empty":         {"", nil, []string{"error: is empty: {} stands for"}, 1},
		"both":          {`{"methodConfig": [], "budgets": []}`, nil, []string{"error: has keys of a gRPC service config beside those"}, 1},
		"JSON":          {"{\n\t\"default_policy\": {\"maxAttempts\": 1}\n}", nil, []string{"2: warning: default_policy.max_attempts 1 never retries: the original is the first attempt [never-retries]"}, 0},
		"strict":        {"mode: observe", []string{"-strict"}, []string{"1: warning: mode observe: the budget only reports, every retry is made [no-budget]"}, 1},
		"allowed":       {"mode: observe", []string{"-strict", "-allow", "product,no-budget"}, nil, 0},
		"errors remain": {"x: 1", []string{"-allow", "invalid"}, []string{"1: error: x is unknown"}, 1},

		"off":                  {`mode: "off"`, nil, []string{"1: warning: mode off: no call is retried [never-retries]"}, 0},
		"strict idempotency":   {"strict_idempotency: true\ndefault_policy: {}\n", nil, []string{"2: warning: default_policy hardly ever retries: with strict_idempotency"}, 0},
		"never for writes":     {"without_non_idempotent_retries: true\ndefault_policy:\n  idempotency: non_idempotent\n", nil, []string{"3: warning: default_policy.idempotency never retries: its methods count as non-idempotent"}, 0},
		"writes":               {"default_policy: {idempotency: non_idempotent}", nil, nil, 0},
		"codes of writes":      {"default_policy:\n  idempotency: non_idempotent\n  retryable_codes: [unavailable]\n", nil, []string{"3: warning: default_policy.retryable_codes are never used: its methods count as non-idempotent [never-retries]"}, 0},
		"idempotent codes":     {"default_policy:\n  idempotent_codes: [internal]\n", nil, []string{"2: warning: default_policy.idempotent_codes are never used: nothing in this file says that its methods are idempotent [never-retries]"}, 0},
		"idempotent":           {"default_policy: {idempotency: idempotent, idempotent_codes: [internal], retryable_codes: [aborted]}", nil, nil, 0},
		"idempotency key":      {"default_policy: {idempotency_key: key, retryable_codes: [unknown, aborted]}", nil, nil, 0},
		"unsafe":               {"default_policy:\n  retryable_codes: [unavailable, unknown, aborted]\n", nil, []string{"2: warning: default_policy.retryable_codes retries UNKNOWN, ABORTED of methods not marked idempotent in this file: the call may have been applied [unsafe-codes]"}, 0},
		"quota":                {"default_policy:\n  retryable_codes: [resource_exhausted]\n", nil, []string{"2: warning: default_policy.retryable_codes retries RESOURCE_EXHAUSTED of methods not marked idempotent in this file even if"}, 0},
		"pointless":            {"default_policy:\n  idempotency: idempotent\n  idempotent_codes: [NOT_FOUND]\n  retryable_codes: [unauthenticated]\n", nil, []string{"4: warning: default_policy.retryable_codes retries NOT_FOUND, UNAUTHENTICATED: an answer that the same request gets again [pointless-codes]"}, 0},
		"timeout of attempts":  {"default_policy: {timeout: 1s, per_attempt_timeout: 0.9s, idempotency: idempotent}", nil, nil, 0},
		"timeout not retried":  {"default_policy:\n  per_attempt_timeout: 0.9s\n", nil, []string{"2: warning: default_policy.per_attempt_timeout ends attempts that are not retried: DEADLINE_EXCEEDED is no code of a retry here [never-retries]"}, 0},
		"no time for attempts": {"default_policy:\n  timeout: 1s\n  per_attempt_timeout: 1s\n  idempotency: idempotent\n", nil, []string{"3: warning: default_policy.per_attempt_timeout 1s leaves no time for a retry after it: the call has 1s [never-retries]"}, 0},
		"no time for the wait": {"default_policy:\n  timeout: 1s\n  exponential_backoff: {initial: 2s, max: 2s, jitter: equal}\n", nil, []string{"3: warning: default_policy.exponential_backoff leaves no time for a retry: the first wait is at least 1s, and the call has 1s [never-retries]"}, 0},
		"full jitter has time": {"default_policy: {timeout: 1s, exponential_backoff: {initial: 2s, max: 2s}}", nil, nil, 0},

		"product":            {"default_policy:\n  max_attempts: 11\n", nil, []string{"2: warning: default_policy.max_attempts of 11 in 1 layer multiplies to 11 for one call"}, 0},
		"at the limit":       {"default_policy:\n  max_attempts: 10\n", nil, nil, 0},
		"layers":             {"default_policy: {max_attempts: 4}", []string{"-layers", "3"}, []string{"1: warning: default_policy.max_attempts of 4 in 3 layers multiplies to 64 for one call when everything fails, unless a budget bounds it: above 10 [product]"}, 0},
		"layers of defaults": {"{}", []string{"-layers", "3"}, []string{"1: warning: default_policy of 3 in 3 layers multiplies to 27"}, 0},
		"layers of writes":   {"default_policy: {max_attempts: 9, idempotency: non_idempotent}", []string{"-layers", "3"}, nil, 0},
		"higher limit":       {"default_policy: {max_attempts: 3}", []string{"-layers", "3", "-max-product", "27"}, nil, 0},

		"unlimited":             {"budgets:\n- unlimited: {}\n", nil, []string{"2: warning: budgets[0].unlimited grants every retry [no-budget]"}, 0},
		"small budget":          {"budgets:\n- token_bucket: {ratio: 0.001}\n", nil, []string{"2: warning: budgets[0].token_bucket holds nothing at the start and 0.001 a success: the first retry comes after 1000 successful calls [small-budget]"}, 0},
		"small with a start":    {"budgets:\n- token_bucket: {ratio: 0.001, initial: 1}\n", nil, nil, 0},
		"throttle":              {"budgets:\n- {scope: per_target, throttle: {max_tokens: 10, token_ratio: 0.1}}\n", nil, nil, 0},
		"throttle too small":    {"budgets:\n- throttle: {max_tokens: 2, token_ratio: 0.1}\n", nil, []string{"2: error: budgets[0].throttle.max_tokens 2 can never grant a retry"}, 1},
		"aliases":               {"default_policy: &p\n  max_attempts: 1\nmethods:\n- names: [/a.B/C]\n  policy: *p\n", nil, []string{"2: warning: default_policy.max_attempts 1", "2: warning: methods[0].policy.max_attempts 1"}, 0},
		"service config":        {"{\"methodConfig\": [\n{\"name\": [{}],\n\"retryPolicy\": {\"maxAttempts\": 0}}]}", nil, []string{"3: error: methodConfig[0].retryPolicy.initialBackoff is missing"}, 1},
		"misspelt":              {"{\n\"methodConfigs\": []}", nil, []string{"2: error: methodConfigs is unknown: did you mean methodConfig? [invalid]"}, 1},
		"broken JSON":           {"{\"methodConfig\": [\n}", nil, []string{"2: error: is not JSON: "}, 1},
		"no entry retries":      {`{"methodConfig": [{"name": [{"service": "a.B"}], "timeout": "1s"}]}`, nil, []string{"1: warning: methodConfig[0] has no retryPolicy: /a.B/ is never retried [never-retries]"}, 0},
		"nothing about retries": {`{"loadBalancingConfig": [{"round_robin": {}}]}`, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, code := findingsOf(t, tt.text, tt.flags...)
			assert.Equal(t, tt.code, code, "%q", got)
			if len(tt.want) == 0 {
				assert.Empty(t, got)
				return
			}
			require.GreaterOrEqual(t, len(got), len(tt.want), "%q", got)
			for i, want := range tt.want {
				assert.True(t, strings.HasPrefix(got[i], want), "%q\ndoes not begin with\n%q", got[i], want)
			}
			if strings.HasSuffix(tt.want[len(tt.want)-1], "]") {
				assert.Len(t, got, len(tt.want))
			}
		})
	}
}

// With descriptors, names are checked and codes are judged method by method.
func TestCheck_descriptors(t *testing.T) {
	t.Parallel()
	protos := quickstartProtos(t)
	for name, tt := range map[string]struct {
		text string
		want []string
		code int
	}{
		"misspelt method":    {"methods:\n- names:\n  - " + service + "GetStok\n  policy: {}\n", []string{`3: error: methods[0].names[0] "` + service + `GetStok" is not in ` + protos + " [unknown-method]"}, 1},
		"misspelt service":   {"methods:\n- names: [/a.B/]\n  policy: {}\n", []string{`2: error: methods[0].names[0] "/a.B/" is not in ` + protos + " [unknown-method]"}, 1},
		"allowed":            {"allow_unknown_methods: true\nmethods:\n- names: [/a.B/]\n  policy: {}\n", []string{`3: warning: methods[0].names[0] "/a.B/" is not in ` + protos + " [unknown-method]"}, 0},
		"in service configs": {`{"methodConfig": [{"name": [{"service": "a.B", "method": "C"}], "timeout": "1s"}]}`, []string{`1: error: methodConfig[0].name "/a.B/C" is not in ` + protos + " [unknown-method]", "1: warning: methodConfig[0] has no retryPolicy: /a.B/C is never retried [never-retries]"}, 1},
		"idempotent":         {"methods:\n- names: [" + service + "GetStock, " + service + "SetStock]\n  policy: {retryable_codes: [aborted], idempotent_codes: [internal]}\n", nil, 0},
		"not idempotent":     {"methods:\n- names: [" + service + "ReserveStock]\n  policy: {retryable_codes: [aborted]}\n", []string{"3: warning: methods[0].policy.retryable_codes retries ABORTED of " + service + "ReserveStock, not marked idempotent: the call may have been applied [unsafe-codes]"}, 0},
		"idempotent codes":   {"methods:\n- names: [" + service + "ReserveStock]\n  policy: {idempotent_codes: [internal]}\n", []string{"3: warning: methods[0].policy.idempotent_codes are never used: nothing says that its methods are idempotent [never-retries]"}, 0},
		"some of a service":  {"default_policy: {retryable_codes: [aborted]}\n", []string{"1: warning: default_policy.retryable_codes retries ABORTED of " + service + "ReserveStock, " + service + "ImportStock, " + service + "ReconcileStock, not marked idempotent: the call may have been applied [unsafe-codes]"}, 0},
		"strict":             {"strict_idempotency: true\ndefault_policy: {retryable_codes: [aborted]}\n", nil, 0},
		"timeout":            {"methods:\n- names: [" + service + "GetStock]\n  policy: {timeout: 2s}\n", nil, 0},
		"timeout of a stream": {
			"methods:\n- names: [" + service + "WatchStock]\n  policy:\n    max_attempts: 2\n    timeout: 2s\n",
			[]string{"5: warning: methods[0].policy.timeout ends every stream of " + service + "WatchStock after 2s, also one that goes well [stream-timeout]"},
			0,
		},
		"timeout of all": {
			"default_policy: {timeout: 2s}\nmethods:\n- names: [" + service + "WatchStock]\n  policy: {}\n",
			[]string{"1: warning: default_policy.timeout ends every stream of " + service + "ImportStock, " + service + "ReconcileStock after 2s, also one that goes well [stream-timeout]"},
			0,
		},
		"timeout in service configs": {
			`{"methodConfig": [{"name": [{"service": "retrybudget.quickstart.v1.InventoryService", "method": "WatchStock"}], "timeout": "1s"}]}`,
			[]string{"1: warning: methodConfig[0].timeout ends every stream of " + service + "WatchStock after 1s, also one that goes well [stream-timeout]", "1: warning: methodConfig[0] has no retryPolicy: " + service + "WatchStock is never retried [never-retries]"},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, code := findingsOf(t, tt.text, "-descriptors", protos)
			assert.Equal(t, tt.code, code)
			assert.Equal(t, tt.want, got)
		})
	}
}

// Where a misspelt name would not be seen, that is said.
func TestCheck_unchecked(t *testing.T) {
	t.Parallel()
	const note = "note: without -descriptors, names of methods are not checked\n"
	protos := quickstartProtos(t)
	named := "methods: [{names: [" + service + "GetStock], policy: {}}]"
	assert.True(t, strings.HasSuffix(runWith(named, "check", "-").out, note))
	assert.NotContains(t, runWith(named, "check", "-descriptors", protos, "-").out, note)
	assert.NotContains(t, runWith("{}", "check", "-").out, note, "it names none")
	assert.Contains(t, runWith("{}", "explain", service+"GetStok", "-").out, note)
	assert.NotContains(t, runWith("{}", "explain", "-descriptors", protos, service+"GetStock", "-").out, note)
}

// Policies of method options are judged where no policy of the file comes first.
func TestCheck_methodOptions(t *testing.T) {
	t.Parallel()
	protos := quickstartProtos(t, func(f *descriptorpb.FileDescriptorProto) {
		for i, policy := range map[int]*retrybudgetv1.Policy{
			0: {RetryableCodes: []retrybudgetv1.Code{retrybudgetv1.Code_CODE_NOT_FOUND}},
			3: {MaxAttempts: new(uint32(0))},
		} {
			m := f.GetService()[0].GetMethod()[i]
			if m.Options == nil {
				m.Options = &descriptorpb.MethodOptions{}
			}
			proto.SetExtension(m.Options, retrybudgetv1.E_Retry, policy)
		}
	})
	for text, want := range map[string][]string{
		"{}": {
			": warning: (retrybudget.v1.retry) of " + service + "GetStock retries NOT_FOUND: an answer that the same request gets again [pointless-codes]",
			": error: (retrybudget.v1.retry) of " + service + "ReserveStock max_attempts 0 is not in 1..2147483647: leave it out for the default [invalid]",
		},
		"default_policy: {}": { // an invalid option fails its calls only where it is used, but it is wrong anyway
			": error: (retrybudget.v1.retry) of " + service + "ReserveStock max_attempts 0 is not in 1..2147483647: leave it out for the default [invalid]",
		},
	} {
		got := runWith(text, "check", "-descriptors", protos, "-")
		assert.Equal(t, exitProblems, got.code)
		for i, w := range want {
			assert.Equal(t, protos+w, lines(got.out)[i])
		}
	}
	got := runWith("", "explain", "-descriptors", protos, service+"ReserveStock")
	assert.Equal(t, exitProblems, got.code)
	assert.Equal(t, protos+": error: (retrybudget.v1.retry) is invalid and fails every call of "+service+
		"ReserveStock: max_attempts 0 is not in 1..2147483647: leave it out for the default\n", got.errors)
}

// Whatever is in a file, check says something about it and does not panic.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"retrybudget.yaml", "dangerous.yaml", "broken.yaml", "service-config.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data)
	}
	sample, err := os.ReadFile("../../examples/config/retrybudget.yaml")
	require.NoError(f, err)
	f.Add(sample)
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(`{"methodConfig": [{"name": [{"service": "a", "method": 1}]}], "retryThrottling": null}`))
	f.Add([]byte("? [a]\n: 1\nmethods: {<<: *x}"))
	protos := quickstartProtos(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		got := runWith(string(data), "check", "-json", "-layers", "3", "-descriptors", protos, "-")
		var report checkReport
		require.NoError(t, json.Unmarshal([]byte(got.out), &report), "%s", got.errors)
		assert.Equal(t, got.code == exitProblems, report.Errors > 0)
		for _, found := range report.Findings {
			assert.Contains(t, kinds, found.Kind)
			assert.LessOrEqual(t, found.Line, len(data)+1) // YAML has line breaks of several kinds
		}
	})
}
