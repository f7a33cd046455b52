package retrybudget

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The README's table of defaults holds what New really uses. Only the inside of
// a Retrier shows that.
func TestReadme_defaultsAreTheRealOnes(t *testing.T) {
	t.Parallel()
	r, err := New()
	require.NoError(t, err)
	cfg, policy := r.config.Load(), r.config.Load().builtin[IdempotencyUnknown]
	backoff, ok := policy.backoff.(ExponentialBackoff)
	require.True(t, ok)
	backoff = backoff.withDefaults()
	bucket, ok := cfg.keys.common.Load().value.budget.(*TokenBucket)
	require.True(t, ok)
	tokens, capacity := bucket.Level()

	jitters := map[Jitter]string{JitterFull: "full"}
	modes := map[Mode]string{Enforce: "Enforce"}
	orNone := func(v any) string {
		if s := fmt.Sprint(v); s != "0s" && s != "" && s != "0" {
			return s
		}
		return "none"
	}
	want := map[string]string{
		"Policy.MaxAttempts":            fmt.Sprint(policy.maxAttempts),
		"Policy.PerAttemptTimeout":      orNone(policy.perAttemptTimeout),
		"Policy.Timeout":                orNone(policy.timeout),
		"Policy.IdempotencyKey":         orNone(policy.keyHeader),
		"Policy.IdempotentCodes":        orNone(policy.idempotentCodes),
		"Policy.Idempotency":            policy.policyLevel.String(),
		"ExponentialBackoff.Initial":    backoff.Initial.String(),
		"ExponentialBackoff.Multiplier": fmt.Sprint(backoff.Multiplier),
		"ExponentialBackoff.Max":        backoff.Max.String(),
		"ExponentialBackoff.Jitter":     jitters[backoff.Jitter],
		"TokenBucketConfig.Capacity":    fmt.Sprint(capacity),
		"TokenBucketConfig.Ratio":       fmt.Sprint(float64(bucket.ratio) / milli),
		"TokenBucketConfig.Initial":     fmt.Sprint(tokens),
		"WithMaxServerDelay":            cfg.maxServerDelay.String(),
		"WithReplayLimits":              fmt.Sprintf("%d KiB for a call, %d MiB in all", cfg.replayCall>>10, cfg.replayTotal>>20),
		"WithMaxKeys":                   fmt.Sprint(cfg.keys.limit.Load()),
		"WithAttemptHeader":             cfg.attemptHeader,
		"WithMode":                      modes[cfg.mode],
	}
	assert.Equal(t, want, defaultsInReadme(t))
}

// defaultsInReadme returns the second column of the table by the first.
func defaultsInReadme(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Defaults\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		all[strings.Trim(cells[1], " `")] = strings.Trim(cells[2], " `")
	}
	return all
}
