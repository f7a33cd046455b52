package backend_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

const calls = 1000

var config = backend.Config{Seed: 1, Workers: 10, ServiceTime: 50 * time.Millisecond, Calls: calls}

func ask(ctx context.Context, s *backend.Service, call int) error {
	_, err := s.GetStock(ctx, &quickstartv1.GetStockRequest{Sku: strconv.Itoa(call)})
	return err
}

// took is how long a call takes alone, in a condition.
func took(t *testing.T, condition backend.Condition) time.Duration {
	t.Helper()
	s := backend.NewService(config)
	s.Enter(condition)
	start := time.Now()
	require.NoError(t, ask(t.Context(), s, 7))
	return time.Since(start)
}

func TestService_slowMultipliesTheServiceTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		usual := took(t, backend.Condition{Workers: 1})
		assert.Equal(t, backend.FateOf(1, 7, 1).Took(config.ServiceTime), usual)
		assert.Equal(t, usual, took(t, backend.Condition{Workers: 1, Slow: 1}))
		assert.Equal(t, 6*usual, took(t, backend.Condition{Workers: 1, Slow: 6}))
	})
}

func TestService_errorsAreAtOnceAndTakeNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := backend.NewService(config)
		s.Enter(backend.Condition{Workers: 0, Errors: 1})
		start := time.Now()
		for call := range calls {
			require.Equal(t, codes.Unavailable, status.Code(ask(t.Context(), s, call)))
		}
		assert.Zero(t, time.Since(start))
	})
}

func TestService_failsTheShareThatItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := backend.NewService(config)
		s.Enter(backend.Condition{Workers: 1, Errors: 0.3})
		failed := 0
		for call := range calls {
			if err := ask(t.Context(), s, call); err != nil {
				failed++
				assert.Equal(t, codes.Unavailable, status.Code(err))
			}
		}
		assert.InDelta(t, 300, failed, 58, "four standard deviations")
	})
}

func TestService_worksWithTheShareOfItsWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := backend.NewService(config)
		s.Enter(backend.Condition{Workers: 0.3})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for call := range calls {
			go ask(ctx, s, call) //nolint:errcheck // given up, all of them
		}
		<-ctx.Done()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, ask(t.Context(), s, 0))
		// The queue of what was given up is worked on all the same: 1,000 times
		// 50 ms, by three of the ten workers.
		assert.InDelta(t, 16.7, time.Since(start).Seconds(), 1)
		assert.Equal(t, 2, s.Attempts(0))
		assert.Equal(t, 1, s.Attempts(1))
	})
}

func TestService_unknownCall(t *testing.T) {
	t.Parallel()
	s := backend.NewService(config)
	for _, sku := range []string{"", "x", "-1", strconv.Itoa(calls)} {
		_, err := s.GetStock(t.Context(), &quickstartv1.GetStockRequest{Sku: sku})
		assert.Equal(t, codes.InvalidArgument, status.Code(err), sku)
	}
}

func TestCondition_capacity(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		condition backend.Condition
		want      float64
	}{
		{backend.Condition{Workers: 1}, 1},
		{backend.Condition{Workers: 0.6, Slow: 1, Errors: 0.01}, 0.6},
		{backend.Condition{Workers: 1, Slow: 4}, 0.25},
		{backend.Condition{Workers: 0.5, Slow: 2}, 0.25},
		{backend.Condition{Workers: 1, Slow: 1, Errors: 1}, 0},
		{backend.Condition{}, 0},
	} {
		assert.InDelta(t, test.want, test.condition.Capacity(), 1e-9, "%+v", test.condition)
	}
}
