// Package differential_test compares calls through the interceptor with the
// same calls without it: whatever the interceptor does not have to change must
// be the same for the caller and for the server.
package differential_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// attemptHeader is gRFC A6's.
const attemptHeader = "grpc-previous-rpc-attempts"

// differCase is one call. Its answers are those of successive attempts of a call
// that is retried; a call that is not retried gets the last one at once.
type differCase struct {
	name    string
	answers []rpctest.Step // none is OK
	text    string         // of the request
	request any            // instead of a message with text
	opts    []grpc.CallOption
	server  []grpc.ServerOption
	dial    []grpc.DialOption
	// ctx changes the context of the call, prepare the connection.
	ctx     func(ctx context.Context, cancel context.CancelFunc) context.Context
	prepare func(cc *grpc.ClientConn)
	// race: both ends see the deadline pass at the same time, and the error's
	// text says which of them was first.
	race bool
	// unserved: no attempt reaches the server's handler.
	unserved bool
	// retried: three attempts although the server's handler sees none.
	retried bool
}

// attempts is how many a call makes that may make three.
func (c differCase) attempts() int {
	if c.retried {
		return 3
	}
	return max(1, len(c.answers))
}

// last is the answers for a call that is not retried.
func (c differCase) last() []rpctest.Step {
	if len(c.answers) == 0 {
		return nil
	}
	return c.answers[len(c.answers)-1:]
}

// modes are the ways to have the interceptor on a connection.
var modes = []struct {
	name        string
	maxAttempts int
	mode        retrybudget.Mode
	plain       bool // the interceptor alone instead of the Retrier's dial options
}{
	{name: "MaxAttempts 1", maxAttempts: 1},
	{name: "MaxAttempts 3, mode Off", maxAttempts: 3, mode: retrybudget.Off},
	{name: "MaxAttempts 3", maxAttempts: 3},
	{name: "MaxAttempts 3, plain interceptor", maxAttempts: 3, plain: true},
}

func TestInterceptor_changesNothingElse(t *testing.T) {
	t.Parallel()
	for _, c := range allCases() {
		for _, m := range modes {
			t.Run(c.name+"/"+m.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r, err := retrybudget.New(
						retrybudget.WithMode(m.mode),
						retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: m.maxAttempts, Backoff: retrybudget.ConstantBackoff(0)}),
						retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: 20})),
					)
					require.NoError(t, err)
					dial := r.DialOptions()
					if m.plain {
						dial = []grpc.DialOption{grpc.WithUnaryInterceptor(r.UnaryClientInterceptor())}
					}
					want, wantAttempts := observe(t, c, c.last())
					requireServed(t, c, wantAttempts)

					if m.maxAttempts == 1 || m.mode == retrybudget.Off || c.attempts() == 1 {
						got, gotAttempts := observe(t, c, c.last(), dial...)
						assert.Equal(t, clean(want), clean(got))
						assert.Equal(t, wantAttempts, gotAttempts)
						return
					}
					got, gotAttempts := observe(t, c, c.answers, dial...)
					requireSameStatus(t, want, got)
					compareAttempts(t, c, wantAttempts, gotAttempts)
				})
			})
		}
	}
}

// requireServed makes sure that the reference call is what the case says.
func requireServed(t *testing.T, c differCase, attempts []attempt) {
	t.Helper()
	if c.unserved || c.retried {
		require.Empty(t, attempts)
		return
	}
	require.Len(t, attempts, 1)
	require.Equal(t, brief(c.text), attempts[0].Request)
}

// compareAttempts checks that each attempt of a retried call looks to the server
// as the only attempt of the reference call does, but for the attempt header:
// the original has what the caller set, a retry the number before it alone.
func compareAttempts(t *testing.T, c differCase, want, got []attempt) {
	t.Helper()
	if c.retried {
		assert.Empty(t, got)
		return
	}
	only, callers := without(attemptHeader, want)
	rest, values := without(attemptHeader, got)
	require.Len(t, got, c.attempts())
	for i := range rest {
		assert.Equal(t, only[0], rest[i], "attempt %d", i+1)
		number := callers[0]
		if i > 0 {
			number = []string{strconv.Itoa(i)}
		}
		assert.Equal(t, number, values[i], "%s of attempt %d", attemptHeader, i+1)
	}
}
