package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/retrybudget/retrybudget/config"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

// What comes from a service config goes back into the same, and means the same.
func TestConvert_serviceConfigRoundTrip(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/service-config.json")
	require.NoError(t, err)
	want, err := serviceconfig.Parse(data)
	require.NoError(t, err)
	for _, format := range []string{"yaml", "json"} {
		there := runWith("", "convert", "-format", format, "testdata/service-config.json")
		require.Equal(t, exitFine, there.code)
		got, err := config.Parse([]byte(there.out))
		require.NoError(t, err)
		assert.True(t, proto.Equal(want, got), "%s:\n%s", format, there.out)

		back := runWith(there.out, "convert", "-strict", "-")
		require.Equal(t, exitFine, back.code, back.errors)
		again, err := serviceconfig.Parse([]byte(back.out))
		require.NoError(t, err)
		assert.True(t, proto.Equal(want, again), back.out)
		assert.Equal(t, there.out, runWith(back.out, "convert", "-format", format, "-").out)
	}
}

// A configuration in the other notation is the same configuration.
func TestConvert_notations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"testdata/retrybudget.yaml", "testdata/dangerous.yaml", "../../examples/config/retrybudget.yaml"} {
		want, err := config.Load(name)
		require.NoError(t, err)
		for _, format := range []string{"yaml", "json"} {
			got := runWith("", "convert", "-strict", "-to", "config", "-format", format, name)
			require.Equal(t, exitFine, got.code, got.errors)
			assert.Empty(t, got.errors)
			cfg, err := config.Parse([]byte(got.out))
			require.NoError(t, err, got.out)
			assert.True(t, proto.Equal(want, cfg), got.out)
		}
	}
}

func TestConvert_saysWhatIsLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		args []string
		want []string // on standard error
	}{
		"to a service config": {
			"default_policy: {max_attempts: 2, retryable_codes: [UNAVAILABLE], per_attempt_timeout: 1s}\nmode: observe\nbudgets: [{scope: per_target, throttle: {max_tokens: 10, token_ratio: 0.1}}]",
			nil,
			[]string{
				"<stdin>: lost: default_policy.exponential_backoff.jitter: gRPC's waits are a fifth longer or shorter",
				"<stdin>: lost: default_policy.per_attempt_timeout: left out",
				"<stdin>: lost: mode: left out",
			},
		},
		"default budget and policies": {
			"{}", nil,
			[]string{
				"<stdin>: note: methods that the configuration does not name have the library's defaults there; gRPC does not retry them",
				"<stdin>: note: the library's default budget has no counterpart: gRPC's clients retry without one unless retryThrottling is added",
			},
		},
		"from a service config": {
			`{"loadBalancingPolicy": "round_robin", "methodConfig": [{"name": [{}], "waitForReady": true, "timeout": "1s"}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`,
			nil,
			[]string{
				"<stdin>: lost: loadBalancingPolicy: left out, it does not say how calls are retried",
				"<stdin>: lost: methodConfig[0].waitForReady: left out, it does not say how calls are retried",
			},
		},
		"meanings": {
			`{"methodConfig": []}`, nil,
			[]string{
				"<stdin>: note: gRPC does not retry methods that no entry names; here they have the library's defaults, unless default_policy: {max_attempts: 1} is added",
				"<stdin>: note: without retryThrottling gRPC has no budget; here the library's default applies",
			},
		},
		"more attempts than gRPC makes": {
			`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 6, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED"]}}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`,
			[]string{"-strict"},
			[]string{"<stdin>: note: methodConfig[0].retryPolicy.maxAttempts of 6 counts as 5 in gRPC's clients; here it is used as it is"},
		},
		"more attempts than gRPC will make": {
			"methods: [{names: [/a.B/], policy: {max_attempts: 9, exponential_backoff: {jitter: a6}, retryable_codes: [ABORTED]}}]\ndefault_policy: {max_attempts: 1}\nbudgets: [{scope: per_target, throttle: {max_tokens: 10, token_ratio: 0.1}}]",
			[]string{"-strict"},
			[]string{"<stdin>: note: methods[0].policy.max_attempts of 9 counts as 5 in gRPC's clients; here it is used as it is"},
		},
		"nothing": {
			`{"methodConfig": [{"name": [{}], "timeout": "1s"}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`,
			[]string{"-strict"},
			[]string{""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runWith(tt.text, append([]string{"convert", "-"}, tt.args...)...)
			assert.Equal(t, exitFine, got.code)
			assert.NotEmpty(t, got.out)
			assert.Equal(t, tt.want, lines(got.errors))
		})
	}
}

// Older readers of YAML take a bare off for false.
func TestConvert_quotesOff(t *testing.T) {
	t.Parallel()
	got := runWith(`{"mode": "MODE_OFF"}`, "convert", "-to", "config", "-")
	assert.Equal(t, "mode: \"off\"\n", got.out)
}

func TestConvert_strict(t *testing.T) {
	t.Parallel()
	got := runWith("default_policy: {per_attempt_timeout: 1s, max_attempts: 1}\n", "convert", "-strict", "-")
	assert.Equal(t, exitProblems, got.code)
	assert.Empty(t, got.out)
	assert.Equal(t, []string{
		"<stdin>: lost: default_policy.per_attempt_timeout: left out",
		"<stdin>: -strict: 1 setting lost, nothing is printed",
	}, lines(got.errors))
}

func TestConvert_problems(t *testing.T) {
	t.Parallel()
	got := runWith("x: 1", "convert", "-")
	assert.Equal(t, exitProblems, got.code)
	assert.Empty(t, got.out)
	assert.Contains(t, got.errors, "<stdin>:1: error: x is unknown")
}

// Whatever a configuration says, it says in the other notation too; and so does a
// service config that is made of it and comes back.
func FuzzConvert(f *testing.F) {
	for _, name := range []string{"testdata/retrybudget.yaml", "testdata/dangerous.yaml", "testdata/service-config.json", "../../examples/config/retrybudget.yaml"} {
		data, err := os.ReadFile(filepath.FromSlash(name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{mode: "off", attempt_header: "1", server: {attempt_headers: ["null", "0.5"]}, methods: [{names: ["/a b:#/*&"], policy: {}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := parseInput("f", data)
		if in.cfg == nil {
			return
		}
		for _, write := range []func() ([]byte, error){
			func() ([]byte, error) { return configYAML(in.cfg) },
			func() ([]byte, error) { return configJSON(in.cfg) },
		} {
			text, err := write()
			require.NoError(t, err)
			cfg, err := config.Parse(text)
			require.NoError(t, err, "%s", text)
			require.True(t, proto.Equal(in.cfg, cfg), "%s", text)
		}
		there := runWith(string(data), "convert", "-to", "service-config", "-")
		if there.code != exitFine {
			return // no service config can say it
		}
		back := runWith(there.out, "convert", "-")
		require.Equal(t, exitFine, back.code, back.errors)
		again := runWith(back.out, "convert", "-strict", "-")
		require.Equal(t, exitFine, again.code, again.errors)
		assert.Equal(t, there.out, again.out)
	})
}
