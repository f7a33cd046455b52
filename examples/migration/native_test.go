package migration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget/examples/migration"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// must returns the options of a client, which are valid.
func must(t *testing.T, dial func() ([]grpc.DialOption, error)) []grpc.DialOption {
	t.Helper()
	options, err := dial()
	require.NoError(t, err)
	return options
}

// What stays the same and what changes, counted on the server; the three ways of
// the new client one after the other.
func TestNative_attempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario
		before, config, resolver, code int
	}{
		"unavailable":                 {scenario{steps: []rpctest.Step{rpctest.Unavailable()}}, 4, 4, 4, 4},
		"OK at last":                  {scenario{steps: []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}}, 2, 2, 2, 2},
		"not in the list":             {scenario{steps: []rpctest.Step{rpctest.Fail(codes.Aborted, "")}}, 1, 1, 1, 1},
		"a process that just started": {scenario{cold: true, steps: []rpctest.Step{rpctest.Unavailable()}}, 4, 4, 4, 4},
		"the server forbids it":       {scenario{steps: []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "-1")}}, 1, 1, 1, 1},
		"headers before the failure":  {scenario{steps: []rpctest.Step{rpctest.WithHeader(rpctest.Unavailable(), "k", "v")}}, 1, 4, 4, 4},
		"no answer":                   {scenario{steps: []rpctest.Step{rpctest.Hang()}}, 1, 1, 1, 1},
		"a method that is not named":  {scenario{method: rpctest.Method, steps: []rpctest.Step{rpctest.Unavailable()}}, 1, 3, 3, 1},
		// The resolver's timeout is one of each attempt, grpc-go's.
		"slow failures": {scenario{steps: []rpctest.Step{rpctest.After(1500*time.Millisecond, rpctest.Unavailable())}}, 2, 2, 4, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.before, tt.play(t, migration.NativeBefore()).attempts, "before")
			assert.Equal(t, tt.config, tt.play(t, must(t, migration.NativeAfter)).attempts, "after, WithConfig")
			assert.Equal(t, tt.resolver, tt.play(t, must(t, migration.NativeAfterResolver)).attempts, "after, WithResolverPolicies")
			assert.Equal(t, tt.code, tt.play(t, must(t, migration.NativeAfterInCode)).attempts, "after, in code")
		})
	}
}

// The same rule closes the retries, after as many.
func TestNative_outage(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]grpc.DialOption{
		"before":                      migration.NativeBefore(),
		"after, WithConfig":           must(t, migration.NativeAfter),
		"after, WithResolverPolicies": must(t, migration.NativeAfterResolver),
		"after, in code":              must(t, migration.NativeAfterInCode),
	} {
		assert.Equal(t, failing+3, outage(t, options, plainCall), name)
	}
}

// The waits are the same, and both end at the timeout.
func TestNative_times(t *testing.T) {
	t.Parallel()
	failing := scenario{steps: []rpctest.Step{rpctest.Unavailable()}}
	hanging := scenario{steps: []rpctest.Step{rpctest.Hang()}}
	for name, options := range map[string][]grpc.DialOption{
		"before":            migration.NativeBefore(),
		"after, WithConfig": must(t, migration.NativeAfter),
		"after, in code":    must(t, migration.NativeAfterInCode),
	} {
		for i, gap := range failing.play(t, options).gaps {
			wait := 100 * time.Millisecond << i
			assert.InDelta(t, wait, gap, float64(wait)/5, "%s, wait %d", name, i+1)
		}
		got := hanging.play(t, options)
		assert.Equal(t, codes.DeadlineExceeded, got.code, name)
		assert.Equal(t, 2*time.Second, got.took, name)
	}
}

// RetryInfo is obeyed; native clients do not look at it.
func TestNative_retryInfo(t *testing.T) {
	t.Parallel()
	s := scenario{steps: []rpctest.Step{rpctest.RetryInfo(codes.Unavailable, time.Second), rpctest.OK()}}
	assert.LessOrEqual(t, s.play(t, migration.NativeBefore()).gaps[0], 120*time.Millisecond)
	assert.GreaterOrEqual(t, s.play(t, must(t, migration.NativeAfter)).gaps[0], time.Second)
}
