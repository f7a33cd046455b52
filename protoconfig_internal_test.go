package retrybudget

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where the complete configuration file says that a value is the default, it is.
// Only the inside of a Retrier shows that.
func TestSampleConfig_defaultsAreTheRealOnes(t *testing.T) {
	t.Parallel()
	r, err := New(WithBudget(PerMethod(AdaptiveConfig{})))
	require.NoError(t, err)
	cfg, policy := r.config.Load(), r.config.Load().builtin[IdempotencyUnknown]
	backoff, ok := policy.backoff.(ExponentialBackoff)
	require.True(t, ok)
	backoff = backoff.withDefaults()
	bucket, err := NewTokenBucket(TokenBucketConfig{})
	require.NoError(t, err)
	adaptive, ok := cfg.keys.common.Load().value.budget.(*AdaptiveBudget)
	require.True(t, ok)
	require.Equal(t, int64(bucket.ratio)*(micro/milli), int64(adaptive.ratio), "one word for both")

	assert.Equal(t, map[string]string{
		"max_attempts": fmt.Sprint(policy.maxAttempts), "initial": backoff.Initial.String(),
		"multiplier": fmt.Sprint(backoff.Multiplier), "max": backoff.Max.String(), "jitter": "full",
		"capacity": fmt.Sprint(bucket.capacity / milli), "ratio": fmt.Sprint(float64(bucket.ratio) / milli),
		"leak": time.Duration(adaptive.leak).String(), "max_server_delay": cfg.maxServerDelay.String(),
		"max_keys": fmt.Sprint(cfg.keys.limit.Load()), "replay_bytes_per_call": fmt.Sprint(cfg.replayCall), "replay_bytes_total": fmt.Sprint(cfg.replayTotal),
	}, defaultsInSample(t))
}

// defaultsInSample returns the values that the file calls the default.
func defaultsInSample(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("examples/config/retrybudget.yaml")
	require.NoError(t, err)
	all := map[string]string{}
	setting := regexp.MustCompile(`^ *([a-z_]+): (\S+) +#.*the default$`)
	for line := range strings.Lines(string(text)) {
		m := setting.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		value := m[2]
		if d, err := time.ParseDuration(value); err == nil {
			value = d.String()
		}
		if before, twice := all[m[1]]; twice {
			assert.Equal(t, before, value, m[1])
		}
		all[m[1]] = value
	}
	return all
}
