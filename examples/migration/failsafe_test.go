package migration_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/examples/migration"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// What stays the same and what changes, counted on the server.
func TestFailsafe_attempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario
		before, after         int
		codeBefore, codeAfter codes.Code
	}{
		"unavailable":                 {scenario{steps: []rpctest.Step{rpctest.Unavailable()}}, 3, 3, codes.Unavailable, codes.Unavailable},
		"OK at last":                  {scenario{steps: []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}}, 2, 2, codes.OK, codes.OK},
		"quota":                       {scenario{steps: []rpctest.Step{rpctest.Fail(codes.ResourceExhausted, "")}}, 3, 3, codes.ResourceExhausted, codes.ResourceExhausted},
		"not in the list":             {scenario{steps: []rpctest.Step{rpctest.Fail(codes.Internal, "")}}, 1, 1, codes.Internal, codes.Internal},
		"a process that just started": {scenario{cold: true, steps: []rpctest.Step{rpctest.Unavailable()}}, 3, 3, codes.Unavailable, codes.Unavailable},
		"the server forbids it":       {scenario{steps: []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "-1")}}, 3, 1, codes.Unavailable, codes.Unavailable},
		// What ends at a time limit has no gRPC status, and so code UNKNOWN.
		"timeouts of attempts": {scenario{steps: []rpctest.Step{rpctest.Hang()}}, 3, 3, codes.Unknown, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := tt.play(t, migration.FailsafeBefore()), tt.play(t, must(t, migration.FailsafeAfter))
			assert.Equal(t, tt.before, before.attempts, "before")
			assert.Equal(t, tt.after, after.attempts, "after")
			assert.Equal(t, tt.codeBefore, before.code, "before: %v", before.err)
			assert.Equal(t, tt.codeAfter, after.code, "after: %v", after.err)
		})
	}
}

// failsafe-go's budget looks at the moment: calls that fail one after the other
// are all retried, in an outage of any length.
func TestFailsafe_outage(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 3*failing, outage(t, migration.FailsafeBefore(), plainCall))
	after := outage(t, must(t, migration.FailsafeAfter), plainCall)
	assert.Greater(t, after, failing)
	assert.LessOrEqual(t, after, failing+3+warmUp/10)
}

// burst makes calls at the same moment, which all fail, and returns their errors.
func burst(t *testing.T, options []grpc.DialOption, calls int) (errs []error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := rpctest.New()
		conn := server.Dial(t, options...)
		server.Script(getStock, rpctest.After(10*time.Millisecond, rpctest.Fail(codes.Unavailable, "shard 7 is down")))
		ends := make(chan error, calls)
		for range calls {
			go func() { ends <- rpctest.CallMethod(context.WithoutCancel(t.Context()), conn, getStock) }()
		}
		for range calls {
			errs = append(errs, <-ends)
		}
	})
	return errs
}

// A call whose retry the budget refuses loses the server's error and gets one that
// is no gRPC status. Here every caller gets what the server said.
func TestFailsafe_refusals(t *testing.T) {
	t.Parallel()
	refused := 0
	for _, err := range burst(t, migration.FailsafeBefore(), 40) {
		if status.Code(err) == codes.Unknown {
			refused++
			assert.Equal(t, budget.ErrExceeded, err)
		}
	}
	assert.Positive(t, refused)
	for _, err := range burst(t, must(t, migration.FailsafeAfter), 40) {
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Contains(t, err.Error(), "shard 7 is down")
	}
}

// The outer time limit too ends a call without a gRPC status.
func TestFailsafe_timeoutOfTheCall(t *testing.T) {
	t.Parallel()
	s := scenario{steps: []rpctest.Step{rpctest.Hang()}}
	options := []grpc.DialOption{grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(timeout.New[any](2 * time.Second)))}
	got := s.play(t, options)
	assert.Equal(t, timeout.ErrExceeded, got.err)
	assert.Equal(t, 2*time.Second, got.took)
}

// The server is not told failsafe-go's time limits.
func TestFailsafe_serverKnowsTheDeadline(t *testing.T) {
	t.Parallel()
	s := scenario{steps: []rpctest.Step{rpctest.OK()}}
	assert.Zero(t, s.play(t, migration.FailsafeBefore()).entries[0].Left)
	assert.Equal(t, 500*time.Millisecond, s.play(t, must(t, migration.FailsafeAfter)).entries[0].Left)
}

// Without ReturnLastFailure the last error is wrapped in one of failsafe-go's.
func TestFailsafe_exceededError(t *testing.T) {
	t.Parallel()
	s := scenario{steps: []rpctest.Step{rpctest.Unavailable()}}
	retries := failsafegrpc.NewRetryPolicyBuilder[any]().Build()
	got := s.play(t, []grpc.DialOption{grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(retries))})
	assert.Equal(t, 3, got.attempts)
	assert.Equal(t, []time.Duration{0, 0}, got.gaps, "without a delay there is none")
	assert.Equal(t, codes.Unavailable, got.code)
	assert.Contains(t, got.err.Error(), "retries exceeded. last result: ")
}

// An answer that came with OK could be taken for a failure. Here it ends the call.
func TestFailsafe_answersThatAreFailures(t *testing.T) {
	t.Parallel()
	s := scenario{cold: true, steps: []rpctest.Step{rpctest.OK()}}
	retries := failsafegrpc.NewRetryPolicyBuilder[any]().HandleIf(func(_ any, err error) bool { return err == nil }).Build()
	assert.Equal(t, 3, s.play(t, []grpc.DialOption{grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(retries))}).attempts)

	r, err := retrybudget.New(retrybudget.WithBudget(retrybudget.Unlimited()),
		retrybudget.WithClassifier(func(retrybudget.CallInfo, error) retrybudget.Verdict { return retrybudget.Retry }))
	require.NoError(t, err)
	assert.Equal(t, 1, s.play(t, r.DialOptions()).attempts)
}

// failsafe-go's budget grants some retries at a time, at every time. A bucket's
// first tokens are gone when they are spent.
func TestFailsafe_leastOfTheBudget(t *testing.T) {
	t.Parallel()
	least := budget.NewBuilder().WithMaxRate(0).WithMinConcurrency(5).Build()
	retries := failsafegrpc.NewRetryPolicyBuilder[any]().WithBudget(least).ReturnLastFailure().Build()
	before := []grpc.DialOption{grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(retries))}
	assert.Equal(t, 3*failing, outage(t, before, plainCall))

	r, err := retrybudget.New(retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Ratio: 0.001, Initial: 5})))
	require.NoError(t, err)
	assert.Equal(t, failing+5, outage(t, r.DialOptions(), plainCall))
}
