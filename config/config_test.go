package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/config"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// textOf returns a Config from protobuf's text format.
func textOf(t testing.TB, text string) *retrybudgetv1.Config {
	t.Helper()
	cfg := &retrybudgetv1.Config{}
	require.NoError(t, prototext.Unmarshal([]byte(text), cfg))
	return cfg
}

func assertEqual(t testing.TB, want, got *retrybudgetv1.Config) {
	t.Helper()
	if !proto.Equal(want, got) {
		assert.Equal(t, prototext.Format(want), prototext.Format(got))
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, want string }{
		"nothing":              {`{}`, ``},
		"names of the proto":   {"default_policy:\n  max_attempts: 4\n", `default_policy { max_attempts: 4 }`},
		"names of its JSON":    {"defaultPolicy:\n  maxAttempts: 4\n", `default_policy { max_attempts: 4 }`},
		"in one line":          {`default_policy: {max_attempts: 4, timeout: 2s}`, `default_policy { max_attempts: 4 timeout { seconds: 2 } }`},
		"JSON":                 {`{"defaultPolicy": {"maxAttempts": 4, "timeout": "2s", "retryableCodes": ["CODE_ABORTED", 14]}}`, `default_policy { max_attempts: 4 timeout { seconds: 2 } retryable_codes: [10, 14] }`},
		"JSON with tabs":       {"{\n\t\"mode\":\t\"MODE_OFF\",\n\t\"attempt_header\": \"x\\u002dn\"\n}\n", `mode: MODE_OFF attempt_header: "x-n"`},
		"enum names":           {"default_policy: {retryable_codes: [UNAVAILABLE, aborted, CODE_INTERNAL, code_data_loss, 4], idempotency: Non_Idempotent, exponential_backoff: {jitter: a6}}", `default_policy { retryable_codes: [14, 10, 13, 15, 4] idempotency: 2 exponential_backoff { jitter: JITTER_A6 } }`},
		"off is not false":     {"mode: off", `mode: MODE_OFF`},
		"booleans":             {"strict_idempotency: true\nresolver_policies: false\nserver: {pushback_hint: True}", `strict_idempotency: true server { pushback_hint: true }`},
		"numbers":              {"budgets: [{token_bucket: {capacity: 1e3, ratio: .5, initial: 0}}, {token_bucket: {capacity: 10.0, ratio: +0.25}}]", `budgets { token_bucket { capacity: 1000 ratio: 0.5 initial: 0 } } budgets { token_bucket { capacity: 10 ratio: 0.25 } }`},
		"a zero that counts":   {"limits: {replay_bytes_per_call: 0}", `limits { replay_bytes_per_call: 0 }`},
		"durations":            {"limits: {max_server_delay: 0.000000001s}\ndefault_policy: {per_attempt_timeout: 0s, timeout: '3s', constant_backoff: 1.5s}", `limits { max_server_delay { nanos: 1 } } default_policy { per_attempt_timeout {} timeout { seconds: 3 } constant_backoff { seconds: 1 nanos: 500000000 } }`},
		"quoted texts":         {"attempt_header: '2024-01-01'\ndefault_policy: {idempotency_key: \"7\"}", `attempt_header: "2024-01-01" default_policy { idempotency_key: "7" }`},
		"a date is a text":     {"attempt_header: 2024-01-01", `attempt_header: "2024-01-01"`},
		"empty messages":       {"default_policy: {}\nbudgets: [{}, {adaptive: {}}]\nmethods: [{names: [/a.B/C], policy: {}}]", `default_policy {} budgets {} budgets { adaptive {} } methods { names: "/a.B/C" policy {} }`},
		"an alias":             {"default_policy: &p {max_attempts: 4}\nmethods:\n  - {names: [/a.B/C], policy: *p}\n  - {names: [/a.B/D], policy: *p}", `default_policy { max_attempts: 4 } methods { names: "/a.B/C" policy { max_attempts: 4 } } methods { names: "/a.B/D" policy { max_attempts: 4 } }`},
		"aliases of values":    {"default_policy: {max_attempts: &n 4, retryable_codes: &c [UNAVAILABLE]}\nlimits: {max_keys: *n}\nserver: {hint_codes: *c}", `default_policy { max_attempts: 4 retryable_codes: 14 } limits { max_keys: 4 } server { hint_codes: 14 }`},
		"a document marker":    {"# comment\n---\nmode: observe\n...\n", `mode: MODE_OBSERVE`},
		"Windows line endings": {"default_policy:\r\n  max_attempts: 4\r\n", `default_policy { max_attempts: 4 }`},
		"a byte order mark":    {"\ufeffmode: observe\n", `mode: MODE_OBSERVE`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse([]byte(tt.file))
			require.NoError(t, err)
			assertEqual(t, textOf(t, tt.want), cfg)
			cfg.AllowUnknownMethods = true
			_, err = retrybudget.New(retrybudget.WithConfig(cfg))
			assert.NoError(t, err)
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "retry.yaml")
	require.NoError(t, os.WriteFile(file, []byte("mode: observe\n"), 0o600))
	cfg, err := config.Load(file)
	require.NoError(t, err)
	assertEqual(t, textOf(t, `mode: MODE_OBSERVE`), cfg)

	require.NoError(t, os.WriteFile(file, []byte("\nmodus: observe\n"), 0o600))
	_, err = config.Load(file)
	assert.ErrorContains(t, err, "retrybudget: "+file+":2: modus is unknown: known here are default_policy, ")
	var e *config.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, file, e.File)

	_, err = config.Load(filepath.Join(t.TempDir(), "absent.yaml"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "retrybudget: open ")
}

// The example in the README is read; ExampleLoad makes the calls.
func TestReadme_yaml(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse([]byte(blockOf("../README.md", "yaml")))
	require.NoError(t, err)
	assertEqual(t, textOf(t, `
		default_policy { max_attempts: 4 exponential_backoff { initial { nanos: 100000000 } max { seconds: 2 } } }
		methods { names: "`+reserveStock+`" policy { idempotency: IDEMPOTENCY_NON_IDEMPOTENT } }
		budgets { token_bucket { capacity: 50 ratio: 0.1 } }`), cfg)
	_, err = retrybudget.New(retrybudget.WithConfig(cfg))
	assert.NoError(t, err)
}

// FuzzParse: no text makes Parse panic; what it accepts New accepts, and protojson
// of it comes back the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"default_policy: {max_attempts: 4, exponential_backoff: {initial: 0.1s, jitter: a6}}\n",
		"methods:\n  - names: [/a.B/C, /a.B/]\n    policy: &p {idempotency: idempotent, retryable_codes: [UNAVAILABLE, 10]}\n  - {names: [/a.C/], policy: *p}\n",
		"budgets: [{scope: shared, token_bucket: {ratio: .5}}, {adaptive: {leak: 1s}}]\nmode: \"off\"\n",
		"budgets: [{throttle: {max_tokens: 10, token_ratio: 0.1}}]\nserver: {hint_codes: [ABORTED]}\nlimits: {max_keys: 1}",
		`{"defaultPolicy": {"constantBackoff": "0s"}, "attemptHeader": "x"}`, "a: &a [*a]", "? [a]\n: b", "a: 1\n--- b", "\t", "{\n\"a\": 1,\n}", "<<: {}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := config.Parse(data)
		if err != nil {
			assert.Nil(t, cfg)
			assert.NotEmpty(t, problems(t, err))
			return
		}
		text, err := protojson.Marshal(cfg)
		require.NoError(t, err)
		if again, err := config.Parse(text); assert.NoError(t, err, "%s", text) {
			assertEqual(t, cfg, again)
		}
		cfg.AllowUnknownMethods = true
		_, err = retrybudget.New(retrybudget.WithConfig(cfg))
		require.NoError(t, err)
	})
}

// Large files without aliases are no fault.
func TestParse_large(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString("methods:\n")
	for i := range 5000 {
		file.WriteString("- {names: [/a.B/" + strings.Repeat("x", 1+i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + "], policy: {max_attempts: 2}}\n")
	}
	cfg, err := config.Parse([]byte(file.String()))
	require.NoError(t, err)
	assert.Len(t, cfg.GetMethods(), 5000)
}
