package migration_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/examples/migration"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

func quiet(context.Context, uint, error) {}

func middleware(t *testing.T) (before, after []grpc.DialOption) {
	t.Helper()
	after, err := migration.MiddlewareAfter(quiet)
	require.NoError(t, err)
	return migration.MiddlewareBefore(quiet), after
}

// What stays the same and what changes, counted on the server.
func TestMiddleware_attempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scenario
		before, after int
	}{
		"unavailable":                       {scenario{steps: []rpctest.Step{rpctest.Unavailable()}}, 4, 4},
		"OK at last":                        {scenario{steps: []rpctest.Step{rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK()}}, 3, 3},
		"quota":                             {scenario{steps: []rpctest.Step{rpctest.Fail(codes.ResourceExhausted, "")}}, 4, 4},
		"not in the list":                   {scenario{steps: []rpctest.Step{rpctest.Fail(codes.Internal, "")}}, 1, 1},
		"a process that just started":       {scenario{cold: true, steps: []rpctest.Step{rpctest.Unavailable()}}, 4, 1},
		"the server forbids it":             {scenario{steps: []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "-1")}}, 4, 1},
		"timeouts of a read":                {scenario{steps: []rpctest.Step{rpctest.Hang()}}, 4, 4},
		"timeouts of a write":               {scenario{method: reserveStock, steps: []rpctest.Step{rpctest.Hang()}}, 4, 1},
		"DEADLINE_EXCEEDED of a write":      {scenario{method: reserveStock, steps: []rpctest.Step{rpctest.Fail(codes.DeadlineExceeded, "")}}, 4, 1},
		"CANCELLED, in no list":             {scenario{steps: []rpctest.Step{rpctest.Fail(codes.Canceled, "")}}, 4, 1},
		"no time for the wait":              {scenario{timeout: 50 * time.Millisecond, steps: []rpctest.Step{rpctest.Unavailable()}}, 1, 1},
		"headers before the failure":        {scenario{steps: []rpctest.Step{rpctest.WithHeader(rpctest.Unavailable(), "k", "v")}}, 4, 4},
		"unavailable write, not marked":     {scenario{method: reserveStock, steps: []rpctest.Step{rpctest.Unavailable()}}, 4, 4},
		"the server says when to come back": {scenario{steps: []rpctest.Step{rpctest.RetryInfo(codes.Unavailable, 5*time.Second), rpctest.OK()}}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := middleware(t)
			assert.Equal(t, tt.before, tt.play(t, before).attempts, "before")
			assert.Equal(t, tt.after, tt.play(t, after).attempts, "after")
		})
	}
}

func TestMiddleware_retriable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"try another shard": 3, "no": 1} {
		s := scenario{steps: []rpctest.Step{rpctest.Fail(codes.Internal, text)}}
		assert.Equal(t, want, s.play(t, migration.MiddlewareRetriableBefore()).attempts, text)
		assert.Equal(t, want, s.play(t, must(t, migration.MiddlewareRetriableAfter)).attempts, text)
	}
}

// Without WithMax nothing was retried, and codes of contexts in a list were ignored.
func TestMiddleware_defaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options []retry.CallOption
		code    codes.Code
		want    int
	}{
		"nothing":           {nil, codes.Unavailable, 1},
		"no attempts":       {[]retry.CallOption{retry.WithMax(0)}, codes.Unavailable, 1},
		"one attempt":       {[]retry.CallOption{retry.WithMax(1)}, codes.Unavailable, 1},
		"default codes":     {[]retry.CallOption{retry.WithMax(2)}, codes.ResourceExhausted, 2},
		"DEADLINE_EXCEEDED": {[]retry.CallOption{retry.WithMax(2), retry.WithCodes(codes.DeadlineExceeded)}, codes.DeadlineExceeded, 1},
		"CANCELLED":         {[]retry.CallOption{retry.WithMax(2), retry.WithCodes(codes.Canceled)}, codes.Canceled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario{steps: []rpctest.Step{rpctest.Fail(tt.code, "")}}
			options := grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(tt.options...))
			assert.Equal(t, tt.want, s.play(t, []grpc.DialOption{options}).attempts)
		})
	}
}

// In an outage of any length the retries end.
func TestMiddleware_outage(t *testing.T) {
	t.Parallel()
	before, after := middleware(t)
	assert.Equal(t, 4*failing, outage(t, before, plainCall))
	assert.Equal(t, failing+warmUp/10, outage(t, after, plainCall))
}

// RetryInfo is obeyed; the old interceptor waits its own time.
func TestMiddleware_retryInfo(t *testing.T) {
	t.Parallel()
	s := scenario{steps: []rpctest.Step{rpctest.RetryInfo(codes.Unavailable, 5*time.Second), rpctest.OK()}}
	before, after := middleware(t)
	assert.InDelta(t, 100*time.Millisecond, s.play(t, before).gaps[0], float64(11*time.Millisecond))
	assert.GreaterOrEqual(t, s.play(t, after).gaps[0], 5*time.Second)
}

// When there is no time for a retry the call ends at once with the server's error,
// not with the deadline's after a wait in vain.
func TestMiddleware_lastError(t *testing.T) {
	t.Parallel()
	s := scenario{timeout: 50 * time.Millisecond, steps: []rpctest.Step{rpctest.Fail(codes.Unavailable, "shard 7 is down")}}
	before, after := middleware(t)

	old := s.play(t, before)
	assert.Equal(t, codes.DeadlineExceeded, old.code)
	assert.NotContains(t, old.err.Error(), "shard 7")
	assert.Equal(t, 50*time.Millisecond, old.took)

	now := s.play(t, after)
	assert.Equal(t, codes.Unavailable, now.code)
	assert.Contains(t, now.err.Error(), "shard 7 is down")
	assert.ErrorIs(t, now.err, retrybudget.ErrDeadline)
	assert.Zero(t, now.took)
}

func TestMiddleware_attemptHeader(t *testing.T) {
	t.Parallel()
	s := scenario{steps: []rpctest.Step{rpctest.Unavailable(), rpctest.OK()}}
	before, after := middleware(t)
	old, now := s.play(t, before).entries[1].MD, s.play(t, after).entries[1].MD
	assert.Equal(t, []string{"1"}, old.Get("x-retry-attempt"))
	assert.Empty(t, old.Get("grpc-previous-rpc-attempts"))
	assert.Equal(t, []string{"1"}, now.Get("grpc-previous-rpc-attempts"))
	assert.Empty(t, now.Get("x-retry-attempt"))
}

// The callback hears of the same retries, with the same numbers.
func TestMiddleware_callback(t *testing.T) {
	t.Parallel()
	s := scenario{steps: []rpctest.Step{rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK()}}
	heard := func(options func(retry.OnRetryCallback) []grpc.DialOption) (numbers []uint) {
		s.play(t, options(func(_ context.Context, n uint, err error) {
			assert.Equal(t, codes.Unavailable, status.Code(err))
			numbers = append(numbers, n)
		}))
		return numbers
	}
	assert.Equal(t, []uint{1, 2}, heard(migration.MiddlewareBefore))
	assert.Equal(t, []uint{1, 2}, heard(func(f retry.OnRetryCallback) []grpc.DialOption {
		options, err := migration.MiddlewareAfter(f)
		require.NoError(t, err)
		return options
	}))
}

func TestMiddleware_callOptions(t *testing.T) {
	t.Parallel()
	before, after := middleware(t)
	for name, tt := range map[string]struct {
		options []grpc.DialOption
		call    func(context.Context, quickstartv1.InventoryServiceClient, *quickstartv1.GetStockRequest) error
	}{
		"before": {before, migration.MiddlewareCallBefore},
		"after":  {after, migration.MiddlewareCallAfter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := rpctest.New()
				client := quickstartv1.NewInventoryServiceClient(server.Dial(t, tt.options...))
				for range warmUp {
					require.NoError(t, tt.call(t.Context(), client, &quickstartv1.GetStockRequest{}))
				}
				server.Script(getStock, rpctest.Fail(codes.Aborted, ""))
				require.Error(t, tt.call(rpctest.WithCallID(t.Context(), "the call"), client, &quickstartv1.GetStockRequest{}))
				assert.Equal(t, 1+2, server.Attempts("the call"))
				assert.Equal(t, 10*time.Millisecond, server.Gaps("the call")[1])
			})
		})
	}
}

// An option of the old package that was left at a call still compiles. Without its
// interceptor nothing reads it, so the call is retried.
func TestMiddleware_oldCallOptionsAreIgnored(t *testing.T) {
	t.Parallel()
	before, after := middleware(t)
	for name, old := range map[string]grpc.CallOption{"Disable": retry.Disable(), "WithMax": retry.WithMax(1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario{method: reserveStock, steps: []rpctest.Step{rpctest.Unavailable()}}
			s.call = func(ctx context.Context, conn *grpc.ClientConn, method string) error {
				return rpctest.CallMethod(ctx, conn, method, old)
			}
			assert.Equal(t, 1, s.play(t, before).attempts, "before")
			assert.Equal(t, 4, s.play(t, after).attempts, "after")
		})
	}
}

// send answers a stream with messages and an end.
func send(end error, messages ...string) func(grpc.ServerStream) error {
	return func(s grpc.ServerStream) error {
		for _, m := range messages {
			if err := s.SendMsg(wrapperspb.String(m)); err != nil {
				return err
			}
		}
		return end
	}
}

// A stream that fails in the middle is begun again by the old interceptor, and
// messages come twice.
func TestMiddleware_streamFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	before, after := middleware(t)
	for name, tt := range map[string]struct {
		options []grpc.DialOption
		want    []string
		code    codes.Code
	}{
		"before": {before, []string{"a", "b", "a", "b", "c"}, codes.OK},
		"after":  {after, []string{"a", "b"}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := rpctest.New()
				server.Streams(quickstartv1.InventoryService_WatchStock_FullMethodName,
					send(status.Error(codes.Unavailable, ""), "a", "b"), send(nil, "a", "b", "c"))
				client := quickstartv1.NewInventoryServiceClient(server.Dial(t, tt.options...))
				stream, err := client.WatchStock(t.Context(), &quickstartv1.WatchStockRequest{})
				require.NoError(t, err)
				var got []string
				m, err := stream.Recv()
				for ; err == nil; m, err = stream.Recv() {
					got = append(got, m.GetSku())
				}
				if errors.Is(err, io.EOF) { // the end of a stream that went well
					err = nil
				}
				assert.Equal(t, tt.code, status.Code(err))
				assert.Equal(t, tt.want, got)
			})
		})
	}
}

// The old interceptor fails the other kinds of streams, this one retries them.
func TestMiddleware_clientStream(t *testing.T) {
	t.Parallel()
	before, after := middleware(t)
	for name, tt := range map[string]struct {
		options []grpc.DialOption
		code    codes.Code
	}{
		"before": {before, codes.Unimplemented},
		"after":  {after, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := rpctest.New()
				client := quickstartv1.NewInventoryServiceClient(server.Dial(t, tt.options...))
				stream, err := client.ImportStock(t.Context())
				if err == nil {
					require.NoError(t, stream.Send(&quickstartv1.ImportStockRequest{}))
					_, err = stream.CloseAndRecv()
				}
				assert.Equal(t, tt.code, status.Code(err))
			})
		})
	}
}
