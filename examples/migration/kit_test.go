package migration_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget/internal/rpctest"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

const (
	getStock     = quickstartv1.InventoryService_GetStock_FullMethodName
	reserveStock = quickstartv1.InventoryService_ReserveStock_FullMethodName
)

// warmUp is how many calls succeed before the one that is looked at, so that a
// budget has what it can have: a default bucket ten tokens.
const warmUp = 100

// seen is what caller and server saw of a call.
type seen struct {
	err      error
	code     codes.Code
	attempts int
	gaps     []time.Duration
	took     time.Duration
	entries  []rpctest.Entry
}

// scenario is a call that fails.
type scenario struct {
	method  string // GetStock without
	cold    bool   // nothing succeeded before
	timeout time.Duration
	steps   []rpctest.Step
	call    caller // rpctest.CallMethod without
}

// caller makes a call of a method.
type caller func(ctx context.Context, conn *grpc.ClientConn, method string) error

func plainCall(ctx context.Context, conn *grpc.ClientConn, method string) error {
	return rpctest.CallMethod(ctx, conn, method)
}

// play makes the call in a world of its own, in fake time.
func (s scenario) play(t *testing.T, options []grpc.DialOption) (got seen) {
	t.Helper()
	if s.method == "" {
		s.method = getStock
	}
	if s.call == nil {
		s.call = plainCall
	}
	synctest.Test(t, func(t *testing.T) {
		server := rpctest.New()
		conn := server.Dial(t, options...)
		if !s.cold {
			for range warmUp {
				require.NoError(t, s.call(t.Context(), conn, s.method))
			}
		}
		server.Script(s.method, s.steps...)
		ctx := rpctest.WithCallID(t.Context(), "the call")
		if s.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.timeout)
			defer cancel()
		}
		start := time.Now()
		got.err = s.call(ctx, conn, s.method)
		got.code = status.Code(got.err)
		got.took = time.Since(start)
		synctest.Wait()
		got.entries = server.Entries("the call")
		got.attempts, got.gaps = len(got.entries), server.Gaps("the call")
	})
	return got
}

// failing is how many calls fail in an outage.
const failing = 200

// outage makes calls that all fail, after some that succeeded, and returns how
// many attempts the server saw of them.
func outage(t *testing.T, options []grpc.DialOption, call caller) (attempts int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := rpctest.New()
		conn := server.Dial(t, options...)
		for range warmUp {
			require.NoError(t, call(t.Context(), conn, getStock))
		}
		server.Script(getStock, rpctest.Unavailable())
		for range failing {
			require.Error(t, call(t.Context(), conn, getStock))
		}
		attempts = server.Attempts("") - warmUp
	})
	return attempts
}
