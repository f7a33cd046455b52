package naive_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget/examples/internal/naive"
)

// attempts runs a call through the interceptor and counts what it sends.
func attempts(ctx context.Context, most int, timeout time.Duration, answer func(ctx context.Context) error) (sent int, err error) {
	err = naive.Interceptor(most, timeout)(ctx, "/s/m", nil, nil, nil,
		func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			sent++
			return answer(ctx)
		})
	return sent, err
}

func TestInterceptor_retriesByCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]int{
		codes.OK:               1,
		codes.Unavailable:      3,
		codes.DeadlineExceeded: 3,
		codes.Internal:         1,
		codes.Canceled:         1,
	} {
		sent, err := attempts(t.Context(), 3, 0, func(context.Context) error { return status.Error(code, "") })
		assert.Equal(t, want, sent, code)
		assert.Equal(t, code, status.Code(err))
	}
}

func TestInterceptor_endsWithTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		start := time.Now()
		sent, err := attempts(t.Context(), 3, 200*time.Millisecond, hang)
		assert.Equal(t, 3, sent)
		assert.Error(t, err)
		assert.Equal(t, 600*time.Millisecond, time.Since(start), "each attempt has its timeout, and nobody waits between them")

		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("the user is gone"))
		defer cancel()
		sent, _ = attempts(ctx, 3, 200*time.Millisecond, hang)
		assert.Equal(t, 2, sent)
	})
}
