package migration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/examples/migration"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
	"github.com/retrybudget/retrybudget/serviceconfig"
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

// An entry without a retryPolicy is one attempt to serviceconfig.Parse, as it is to
// grpc-go. Delivered by the resolver it says nothing, and the method has the
// library's default unless the program says otherwise.
func TestNative_resolverWithoutRetryPolicy(t *testing.T) {
	t.Parallel()
	const text = `{"methodConfig": [{"name": [{"service": "retrybudget.quickstart.v1.InventoryService"}], "timeout": "2s"}]}`
	delivered := grpc.WithDefaultServiceConfig(text)
	cfg, err := serviceconfig.Parse([]byte(text))
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		options []grpc.DialOption
		want    int
	}{
		"before":                {[]grpc.DialOption{delivered}, 1},
		"read by Parse":         {with(t, retrybudget.WithConfig(cfg)), 1},
		"from the resolver":     {append(with(t, retrybudget.WithResolverPolicies()), delivered), 3},
		"marked non-idempotent": {append(with(t, retrybudget.WithResolverPolicies(), retrybudget.WithMethodPolicy(reserveStock, retrybudget.Policy{Idempotency: retrybudget.NonIdempotent})), delivered), 1},
		"given one attempt":     {append(with(t, retrybudget.WithResolverPolicies(), retrybudget.WithMethodPolicy(reserveStock, retrybudget.Policy{MaxAttempts: 1})), delivered), 1},
	} {
		s := scenario{method: reserveStock, steps: []rpctest.Step{rpctest.Unavailable()}}
		assert.Equal(t, tt.want, s.play(t, tt.options).attempts, name)
	}
}

// Methods that no entry names are switched off by a default policy of the file.
// WithPolicy switches off all that the file says.
func TestNative_methodsNotNamed(t *testing.T) {
	t.Parallel()
	once := retrybudget.Policy{MaxAttempts: 1}
	cfg, err := serviceconfig.Parse([]byte(migration.ServiceConfig))
	require.NoError(t, err)
	cfg.DefaultPolicy = &retrybudgetv1.Policy{MaxAttempts: new(uint32(1))}
	s := scenario{steps: []rpctest.Step{rpctest.Unavailable()}}
	other := scenario{method: rpctest.Method, steps: s.steps}

	fallback := with(t, retrybudget.WithConfig(cfg))
	assert.Equal(t, 4, s.play(t, fallback).attempts)
	assert.Equal(t, 1, other.play(t, fallback).attempts)

	assert.Equal(t, 1, s.play(t, with(t, retrybudget.WithConfig(cfg), retrybudget.WithPolicy(once))).attempts)
	resolver := append(with(t, retrybudget.WithResolverPolicies(), retrybudget.WithPolicy(once)), grpc.WithDefaultServiceConfig(migration.ServiceConfig))
	assert.Equal(t, 1, s.play(t, resolver).attempts)
}

// with returns the options of a client with a Retrier of its own.
func with(t *testing.T, options ...retrybudget.Option) []grpc.DialOption {
	t.Helper()
	r, err := retrybudget.New(options...)
	require.NoError(t, err)
	return r.DialOptions()
}
