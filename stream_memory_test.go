package retrybudget_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// The most that a call may keep is kept; the message that does not fit commits.
func TestStreamMemory_perCallLimit(t *testing.T) {
	t.Parallel()
	const size = 10_000
	for _, test := range []struct {
		name     string
		opts     []retrybudget.Option
		call     []grpc.CallOption
		messages int // that are sent
		attempts int
	}{
		{"default fits", nil, nil, 25, 2},
		{"default exceeded", nil, nil, 27, 1},
		{"configured", []retrybudget.Option{retrybudget.WithReplayLimits(30_500, 1<<20)}, nil, 3, 2},
		{"configured exceeded", []retrybudget.Option{retrybudget.WithReplayLimits(30_500, 1<<20)}, nil, 4, 1},
		{"grpc's option", nil, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(30_500)}, 3, 2},
		{"grpc's option exceeded", nil, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(30_500)}, 4, 1},
		{"grpc's option raises it", nil, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(1 << 20)}, 27, 2},
		{"the last option counts", nil, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(1), grpc.MaxRetryRPCBufferSize(30_500)}, 3, 2},
		{"all together", []retrybudget.Option{retrybudget.WithReplayLimits(1<<20, 30_500)}, nil, 3, 2},
		{"all together exceeded", []retrybudget.Option{retrybudget.WithReplayLimits(1<<20, 30_500)}, nil, 4, 1},
		{"nothing is kept", []retrybudget.Option{retrybudget.WithReplayLimits(0, 0)}, nil, 1, 1},
		{"nothing sent", []retrybudget.Option{retrybudget.WithReplayLimits(0, 0)}, nil, 0, 2},
		{"grpc's 0", nil, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(0)}, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, func(ss grpc.ServerStream) error {
					_, _ = recvAll(ss)
					return unavailable("x")
				}, collecting)
				r := newRetrier(t, append([]retrybudget.Option{atOnce(2)}, test.opts...)...)
				cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), clientStream, test.call...)
				text := strings.Repeat("x", size)
				for i := range test.messages {
					require.NoError(t, cs.SendMsg(wrapperspb.String(text)))
					if test.attempts == 2 {
						assert.InDelta(t, (i+1)*size, r.ReplayBytes(), float64(150*(i+1)))
					}
				}
				if test.attempts == 1 {
					assert.Zero(t, r.ReplayBytes(), "freed by the overflow")
				}
				require.NoError(t, cs.CloseSend())

				got, err := recvOne(cs)

				if test.attempts == 2 {
					assert.NoError(t, err)
					assert.Len(t, got, size*test.messages)
				} else {
					assert.Equal(t, codes.Unavailable, status.Code(err))
				}
				assert.Equal(t, test.attempts, s.AttemptsOf(streamMethod))
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// Many calls at once stay within the limit of the Retrier; those that find no
// room go on without retries.
func TestStreamMemory_allCallsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls, messages, perCall, total = 12, 20, 1 << 20, 4 << 20
		text := strings.Repeat("x", 64<<10)
		s := streamServer(t, func(ss grpc.ServerStream) error {
			all, err := recvAll(ss)
			if err != io.EOF || len(all) != messages {
				return status.Errorf(codes.DataLoss, "%d messages, %v", len(all), err)
			}
			return unavailable("x")
		})
		r := newRetrier(t, retrybudget.WithReplayLimits(perCall, total))
		cc := s.Dial(t, r.DialOptions()...)
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				cs := open(t.Context(), t, cc, clientStream)
				m := &wrapperspb.StringValue{Value: text}
				for range messages {
					assert.NoError(t, cs.SendMsg(m))
					assert.LessOrEqual(t, r.ReplayBytes(), int64(total))
				}
				assert.NoError(t, cs.CloseSend())
				_, err := recvOne(cs)
				assert.Equal(t, codes.Unavailable, status.Code(err))
			})
		}
		all.Wait()
		assert.Equal(t, calls, s.AttemptsOf(streamMethod), "each was larger than may be kept")
		assert.Zero(t, r.ReplayBytes())
	})
}

// The same with calls that fit, of which the last ones find the Retrier full.
func TestStreamMemory_roomIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(1, failing(unavailable("x"))), collecting)
		r := newRetrier(t, retrybudget.WithReplayLimits(1<<20, 25_000), atOnce(2))
		cc := s.Dial(t, r.DialOptions()...)
		text := strings.Repeat("x", 10_000)
		var held []grpc.ClientStream
		var cancels []context.CancelFunc
		for i := range 3 {
			ctx, cancel := context.WithCancel(withCallID(t, fmt.Sprint(i)))
			cancels = append(cancels, cancel)
			cs := open(ctx, t, cc, clientStream)
			require.NoError(t, cs.SendMsg(wrapperspb.String(text)))
			require.NoError(t, cs.CloseSend())
			held = append(held, cs)
		}
		assert.InDelta(t, 20_000, r.ReplayBytes(), 500)
		_, err := recvOne(held[2])
		assert.Equal(t, codes.Unavailable, status.Code(err), "there was no room for it")
		cancels[0]()
		synctest.Wait()
		assert.InDelta(t, 10_000, r.ReplayBytes(), 250)
		_, err = recvOne(held[1])
		assert.NoError(t, err)
		assert.Zero(t, r.ReplayBytes())

		cs := open(withCallID(t, "after"), t, cc, clientStream)
		sendAll(t, cs, text)
		_, err = recvOne(cs)
		assert.NoError(t, err, "there is room again")
		cancels[1]()
		cancels[2]()
	})
}

// Empty messages count as well, or a stream of them would grow without bound.
func TestStreamMemory_emptyMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, hanging)
		r := newRetrier(t, retrybudget.WithReplayLimits(1500, 1<<20))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cs := open(ctx, t, s.Dial(t, r.DialOptions()...), bidiStream)
		var most int64
		for range 1000 {
			require.NoError(t, cs.SendMsg(&emptypb.Empty{}))
			most = max(most, r.ReplayBytes())
		}
		assert.Positive(t, most)
		assert.LessOrEqual(t, most, int64(1500))
		assert.Zero(t, r.ReplayBytes(), "1,000 of them overflow")
	})
}

// What frees the kept messages.
func TestStreamMemory_freedAtCommitAndEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handlers []func(grpc.ServerStream) error
		do       func(cs grpc.ClientStream, cancel func())
		opts     []retrybudget.Option
	}{
		"message": {[]func(grpc.ServerStream) error{reading(1, func(ss grpc.ServerStream) error { _ = send(ss, "m"); return hanging(ss) })}, func(cs grpc.ClientStream, _ func()) { _, _ = recvOne(cs) }, nil},
		"headers": {[]func(grpc.ServerStream) error{withHeader(hanging, "k", "v")}, func(cs grpc.ClientStream, _ func()) { _, _ = cs.Header() }, nil},
		"OK":      {[]func(grpc.ServerStream) error{reading(1, failing(nil))}, func(cs grpc.ClientStream, _ func()) { _, _ = recvOne(cs) }, nil},
		"failure": {[]func(grpc.ServerStream) error{reading(1, failing(unavailable("x")))}, func(cs grpc.ClientStream, _ func()) { _, _ = recvOne(cs) }, nil},
		"cancel":  {[]func(grpc.ServerStream) error{hanging}, func(_ grpc.ClientStream, cancel func()) { cancel() }, nil},
		"cancel in the wait": {
			[]func(grpc.ServerStream) error{failing(unavailable("x"))},
			func(cs grpc.ClientStream, cancel func()) { time.AfterFunc(time.Minute, cancel); _, _ = recvOne(cs) },
			[]retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(time.Hour)})},
		},
		"local error": {[]func(grpc.ServerStream) error{hanging}, func(cs grpc.ClientStream, _ func()) { _ = cs.SendMsg("no message") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, test.handlers...)
				r := newRetrier(t, test.opts...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cs := open(ctx, t, s.Dial(t, r.DialOptions()...), bidiStream)
				sendOne(t, cs, "a")
				assert.Positive(t, r.ReplayBytes())
				test.do(cs, cancel)
				synctest.Wait()
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// Calls that are never retried keep nothing.
func TestStreamMemory_nothingIsKeptWhenRetriesAreOff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts []retrybudget.Option
		call []grpc.CallOption
	}{
		"Off":            {opts: []retrybudget.Option{retrybudget.WithMode(retrybudget.Off)}},
		"MaxAttempts 1":  {opts: []retrybudget.Option{atOnce(1)}},
		"CallDisabled":   {call: []grpc.CallOption{retrybudget.CallDisabled()}},
		"with a timeout": {opts: []retrybudget.Option{perTry(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, echoing)
				r := newRetrier(t, test.opts...)
				cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), bidiStream, test.call...)
				sendOne(t, cs, "a")
				assert.Zero(t, r.ReplayBytes())
				got, err := recvOne(cs)
				assert.NoError(t, err)
				assert.Equal(t, "a", got)
				require.NoError(t, cs.CloseSend())
				_, err = recvOne(cs)
				assert.Equal(t, io.EOF, err)
			})
		})
	}
}
