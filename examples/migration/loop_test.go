package migration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget/examples/migration"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

func loopBefore(ctx context.Context, conn *grpc.ClientConn, _ string) error {
	_, err := migration.LoopBefore(ctx, quickstartv1.NewInventoryServiceClient(conn), "bolt-m8")
	return err
}

func loopAfter(ctx context.Context, conn *grpc.ClientConn, _ string) error {
	_, err := migration.LoopAfter(ctx, quickstartv1.NewInventoryServiceClient(conn), "bolt-m8")
	return err
}

// What stays the same and what changes, counted on the server.
func TestLoop_attempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario
		before, after int
	}{
		"unavailable":                 {scenario{steps: []rpctest.Step{rpctest.Unavailable()}}, 3, 3},
		"OK at last":                  {scenario{steps: []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}}, 2, 2},
		"not in the list":             {scenario{steps: []rpctest.Step{rpctest.Fail(codes.Internal, "")}}, 1, 1},
		"aborted":                     {scenario{steps: []rpctest.Step{rpctest.Fail(codes.Aborted, "")}}, 1, 3},
		"timeouts":                    {scenario{steps: []rpctest.Step{rpctest.Hang()}}, 3, 3},
		"a process that just started": {scenario{cold: true, steps: []rpctest.Step{rpctest.Unavailable()}}, 3, 1},
		"the server forbids it":       {scenario{steps: []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "-1")}}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.call = loopBefore
			assert.Equal(t, tt.before, tt.play(t, nil).attempts, "before")
			tt.call = loopAfter
			assert.Equal(t, tt.after, tt.play(t, must(t, migration.LoopAfterDial)).attempts, "after")
		})
	}
}

func TestLoop_outage(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 3*failing, outage(t, nil, loopBefore))
	assert.Equal(t, failing+warmUp/10, outage(t, must(t, migration.LoopAfterDial), loopAfter))
}

// The loop sleeps on after its caller is gone.
func TestLoop_caller(t *testing.T) {
	t.Parallel()
	s := scenario{timeout: 50 * time.Millisecond, steps: []rpctest.Step{rpctest.Unavailable()}, call: loopBefore}
	old := s.play(t, nil)
	assert.Equal(t, 300*time.Millisecond, old.took)
	assert.Equal(t, codes.DeadlineExceeded, old.code, "what the server said is lost")
	s.call = loopAfter
	now := s.play(t, must(t, migration.LoopAfterDial))
	assert.LessOrEqual(t, now.took, 50*time.Millisecond)
	assert.Equal(t, codes.Unavailable, now.code)
}
