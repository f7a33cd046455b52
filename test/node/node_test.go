// Package node_test runs a client in JavaScript, with the retries of grpc-js,
// against a server with the server interceptors: what they tell a caller has to
// work with clients that have never heard of this library.
package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

// deadline ends a call, and limit the process that makes it, where something
// hangs. No call comes near them.
const (
	deadline = 60 * time.Second
	limit    = 90 * time.Second
)

// ended is how a call ended.
type ended struct {
	Code    codes.Code
	Details string
}

// callFromNode lets grpc-js make one call, with up to three attempts of its own
// and backoff between them.
func callFromNode(t *testing.T, target, method string, stream bool, backoff string) (end ended) {
	t.Helper()
	call, err := json.Marshal(map[string]any{
		"target": target, "method": method, "stream": stream, "backoff": backoff, "deadline": deadline.Milliseconds(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "node", "client.js", string(call))
	cmd.Dir, cmd.Stderr = folder, &problems
	output, err := cmd.Output()
	require.NoError(t, err, "node client.js: %s", &problems)
	require.NoError(t, json.Unmarshal(output, &end), "%s", output)
	return end
}

const (
	soon = "0.001s" // a backoff that cannot be taken for a pushback of ours
	late = "30s"    // likewise
)

func TestNode_obeysTheServer(t *testing.T) {
	t.Parallel()
	needNode(t)
	unavailable := status.Error(codes.Unavailable, "mine")
	pushback := func(d time.Duration) func(context.Context, int) error {
		return func(ctx context.Context, attempt int) error {
			if attempt == 3 {
				return nil
			}
			assert.NoError(t, retrybudget.SetPushback(ctx, d))
			return unavailable
		}
	}
	full := func(context.Context) bool { return true }
	for _, tt := range []struct {
		name     string
		backoff  string
		opts     []retrybudget.ServerOption
		handler  func(ctx context.Context, attempt int) error
		attempts int
		runs     int           // of the handler
		gap      time.Duration // between attempts, at least; at most 20 s more
		code     codes.Code
	}{
		{
			name: "control: its own retries", backoff: soon,
			handler:  func(context.Context, int) error { return unavailable },
			attempts: 3, runs: 3, code: codes.Unavailable,
		},
		{
			name: "control: the hint says nothing to it", backoff: soon,
			handler:  func(ctx context.Context, _ int) error { return callNobody(ctx, t) },
			attempts: 3, runs: 3, code: codes.Unavailable,
		},
		{
			name: "StopRetries", backoff: soon,
			handler: func(ctx context.Context, _ int) error {
				assert.NoError(t, retrybudget.StopRetries(ctx))
				return unavailable
			},
			attempts: 1, runs: 1, code: codes.Unavailable,
		},
		{
			name: "WithPushbackHint", backoff: soon, opts: []retrybudget.ServerOption{retrybudget.WithPushbackHint()},
			handler:  func(ctx context.Context, _ int) error { return callNobody(ctx, t) },
			attempts: 1, runs: 1, code: codes.Unavailable,
		},
		{
			name: "WithRetryShedding", backoff: soon, opts: []retrybudget.ServerOption{retrybudget.WithRetryShedding(full)},
			handler:  func(context.Context, int) error { return unavailable },
			attempts: 2, runs: 1, code: codes.Unavailable,
		},
		{
			name: "SetPushback, longer than its backoff", backoff: soon,
			handler: pushback(400 * time.Millisecond), attempts: 3, runs: 3, gap: 400 * time.Millisecond,
		},
		{
			name: "SetPushback, shorter than its backoff", backoff: late,
			handler: pushback(50 * time.Millisecond), attempts: 3, runs: 3, gap: 50 * time.Millisecond,
		},
	} {
		for kind, stream := range map[string]bool{"unary": false, "stream": true} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s := serve(t, tt.handler, tt.opts...)

				end := callFromNode(t, s.target, methods[stream], stream, tt.backoff)

				assert.Equal(t, tt.code, end.Code, end.Details)
				assert.Equal(t, tt.runs, s.runs())
				arrivals := s.arrivals()
				require.Len(t, arrivals, tt.attempts)
				for i := 1; i < len(arrivals); i++ {
					gap := arrivals[i].Sub(arrivals[i-1])
					// A timer of JavaScript may be up to a millisecond early, and
					// the two times are taken a way apart.
					assert.GreaterOrEqual(t, gap, tt.gap-20*time.Millisecond, "before attempt %d", i+1)
					assert.Less(t, gap, tt.gap+20*time.Second, "before attempt %d", i+1)
				}
			})
		}
	}
}
