package migration_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

// options are the names in the tables of the document, and what they name: one
// that is gone does not compile.
var options = map[string]any{
	"retry.WithMax": retry.WithMax, "retry.Disable": retry.Disable, "retry.WithCodes": retry.WithCodes,
	"retry.WithPerRetryTimeout": retry.WithPerRetryTimeout, "retry.WithBackoff": retry.WithBackoff,
	"retry.WithRetriable": retry.WithRetriable, "retry.WithOnRetryCallback": retry.WithOnRetryCallback,

	"grpc.WithMaxCallAttempts": grpc.WithMaxCallAttempts, "grpc.MaxRetryRPCBufferSize": grpc.MaxRetryRPCBufferSize,

	"failsafegrpc.NewRetryPolicyBuilder": failsafegrpc.NewRetryPolicyBuilder[any],
	"budget.New":                         budget.New, "budget.ErrExceeded": budget.ErrExceeded, "timeout.New": timeout.New[any],
	"WithMaxAttempts": retrypolicy.Builder[any].WithMaxAttempts, "WithMaxRetries": retrypolicy.Builder[any].WithMaxRetries,
	"WithMaxDuration": retrypolicy.Builder[any].WithMaxDuration, "WithDelay": retrypolicy.Builder[any].WithDelay,
	"WithBackoff": retrypolicy.Builder[any].WithBackoff, "WithBackoffFactor": retrypolicy.Builder[any].WithBackoffFactor,
	"WithJitter": retrypolicy.Builder[any].WithJitter, "WithJitterFactor": retrypolicy.Builder[any].WithJitterFactor,
	"WithRandomDelay": retrypolicy.Builder[any].WithRandomDelay, "WithDelayFunc": retrypolicy.Builder[any].WithDelayFunc,
	"HandleErrors": retrypolicy.Builder[any].HandleErrors, "HandleIf": retrypolicy.Builder[any].HandleIf,
	"AbortIf": retrypolicy.Builder[any].AbortIf, "ReturnLastFailure": retrypolicy.Builder[any].ReturnLastFailure,
	"OnRetry": retrypolicy.Builder[any].OnRetry, "OnRetriesExceeded": retrypolicy.Builder[any].OnRetriesExceeded,
	"OnRetryScheduled": retrypolicy.Builder[any].OnRetryScheduled, "OnAbort": retrypolicy.Builder[any].OnAbort,
	"HandleErrorTypes": retrypolicy.Builder[any].HandleErrorTypes, "HandleResult": retrypolicy.Builder[any].HandleResult,
	"AbortOnErrors": retrypolicy.Builder[any].AbortOnErrors, "AbortOnErrorTypes": retrypolicy.Builder[any].AbortOnErrorTypes,
	"AbortOnResult": retrypolicy.Builder[any].AbortOnResult, "WithMaxRate": budget.Builder.WithMaxRate,
	"WithMinConcurrency": budget.Builder.WithMinConcurrency, "OnBudgetExceeded": budget.Builder.OnBudgetExceeded,

	"Policy": retrybudget.Policy{}, "Policy.MaxAttempts": retrybudget.Policy{}.MaxAttempts,
	"Policy.RetryableCodes": retrybudget.Policy{}.RetryableCodes, "Policy.PerAttemptTimeout": retrybudget.Policy{}.PerAttemptTimeout,
	"Policy.Backoff": retrybudget.Policy{}.Backoff, "Policy.BackoffFunc": retrybudget.Policy{}.BackoffFunc,
	"Policy.Timeout": retrybudget.Policy{}.Timeout, "ConstantBackoff": retrybudget.ConstantBackoff(0),
	"ExponentialBackoff": retrybudget.ExponentialBackoff{}, "ExponentialBackoff.Initial": retrybudget.ExponentialBackoff{}.Initial,
	"ExponentialBackoff.Max": retrybudget.ExponentialBackoff{}.Max, "ExponentialBackoff.Multiplier": retrybudget.ExponentialBackoff{}.Multiplier,
	"ExponentialBackoff.Jitter": retrybudget.ExponentialBackoff{}.Jitter, "Final": retrybudget.Final,
	"CallDisabled": retrybudget.CallDisabled, "WithClassifier": retrybudget.WithClassifier, "WithObserver": retrybudget.WithObserver,
	"WithMethodPolicy": retrybudget.WithMethodPolicy, "WithReplayLimits": retrybudget.WithReplayLimits, "WithBudget": retrybudget.WithBudget,
	"TokenBucketConfig.Ratio": retrybudget.TokenBucketConfig{}.Ratio, "TokenBucketConfig.Initial": retrybudget.TokenBucketConfig{}.Initial,
	"PerTarget(ThrottleConfig)": retrybudget.PerTarget(retrybudget.ThrottleConfig{}), "ErrBudgetExhausted": retrybudget.ErrBudgetExhausted,

	// Of a service config and a configuration file.
	"name": nil, "methods[].names": nil, "maxAttempts": nil, "initialBackoff": nil, "maxBackoff": nil, "backoffMultiplier": nil,
	"retryableStatusCodes": nil, "timeout": nil, "retryThrottling": nil, "hedgingPolicy": nil,
}

func TestDocument_namesOptionsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \| ([^|]*) \|`).FindAllStringSubmatch(string(text), -1) {
		for _, cell := range row[1:] {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
				assert.Contains(t, options, name[1])
				seen[name[1]] = true
			}
		}
	}
	for name := range options {
		assert.True(t, seen[name], "%s is in no table", name)
	}
}

// What the tables say of serviceconfig.Parse.
func TestDocument_serviceConfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"hedgingPolicy": {}`: "hedgingPolicy is not supported",
		`"retryPolicy": {"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 0.5, "retryableStatusCodes": [14]}`: "backoffMultiplier 0.5 is not in 1..1000000",
		`"retryPolicy": {"maxAttempts": 2, "initialBackoff": "2s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [14]}`:   "maxBackoff 1s is below initialBackoff 2s",
	} {
		_, err := serviceconfig.Parse([]byte(`{"methodConfig": [{"name": [{}], ` + text + `}]}`))
		assert.ErrorContains(t, err, want)
	}
}
