package main

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

func TestRun_showsAllScenes(t *testing.T) {
	t.Parallel()
	var out strings.Builder

	require.NoError(t, run(t.Context(), &out))

	// Times differ from run to run.
	got := regexp.MustCompile(`[0-9]+ ms left`).ReplaceAllString(out.String(), "TIME left")
	assert.Equal(t, `1. A budget with 5 tokens: GetStock fails twice and then succeeds.
   server saw   attempt 1   grpc-previous-rpc-attempts: not sent   TIME left
   server saw   attempt 2   grpc-previous-rpc-attempts: 1          TIME left
   server saw   attempt 3   grpc-previous-rpc-attempts: 2          TIME left
   returned      12 pieces of bolt-m8
   tokens left   3 of 20

2. The same call with an empty budget: nothing is retried.
   server saw   attempt 1   grpc-previous-rpc-attempts: not sent   TIME left
   returned      Unavailable: the warehouse database is restarting
   reason        budget
   error text    retrybudget: retry budget exhausted after 1 attempt: rpc error: code = Unavailable desc = the warehouse database is restarting
   tokens left   0 of 20

3. A stream: WatchStock fails twice before its first message and then delivers.
   server saw   attempt 1   grpc-previous-rpc-attempts: not sent   TIME left
   server saw   attempt 2   grpc-previous-rpc-attempts: 1          TIME left
   server saw   attempt 3   grpc-previous-rpc-attempts: 2          TIME left
   returned      12, then 11, then 10 pieces
   tokens left   3 of 20
`, got)
}

func TestRun_endsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	assert.ErrorContains(t, run(ctx, io.Discard), "quickstart: scene 1: ")
}

func TestScene_surprisesAreErrors(t *testing.T) {
	t.Parallel()
	refused := status.Error(codes.Unavailable, "down")
	retried := scene{tokens: 5, attempts: 2}
	stopped := scene{tokens: 0, attempts: 1, reason: retrybudget.ReasonBudget}
	first, second := attempt{"", 1900 * time.Millisecond}, attempt{"1", 1800 * time.Millisecond}
	left := func(tokens float64) retrybudget.BudgetInfo {
		return retrybudget.BudgetInfo{Tokens: tokens, Capacity: 20}
	}
	for name, c := range map[string]struct {
		scene   scene
		outcome outcome
		want    string // part of the error, empty for none
	}{
		"as it should be":       {retried, outcome{seen: []attempt{first, second}, budget: left(4)}, ""},
		"one attempt too few":   {retried, outcome{seen: []attempt{first}, budget: left(4)}, "saw 1 attempts, not 2"},
		"header missing":        {retried, outcome{seen: []attempt{first, {"", time.Second}}, budget: left(4)}, `header value "", not "1"`},
		"deadline grew":         {retried, outcome{seen: []attempt{first, {"1", 2 * time.Second}}, budget: left(4)}, "attempt 2 had 2s left"},
		"no deadline":           {retried, outcome{seen: []attempt{{"", 0}, second}, budget: left(4)}, "attempt 1 had 0s left"},
		"token not taken":       {retried, outcome{seen: []attempt{first, second}, budget: left(5)}, "5 tokens are left, not 4"},
		"call failed":           {retried, outcome{seen: []attempt{first, second}, budget: left(4), err: refused}, "down"},
		"succeeded, not failed": {stopped, outcome{seen: []attempt{first}, budget: left(0)}, `reason "", not "budget"`},
		"another reason":        {stopped, outcome{seen: []attempt{first}, budget: left(0), err: refused}, `reason "", not "budget"`},
		"status lost":           {stopped, outcome{seen: []attempt{first}, budget: left(0), err: &retrybudget.Error{Reason: retrybudget.ReasonBudget}}, "not the server's Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.scene.check(c.outcome)
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}
