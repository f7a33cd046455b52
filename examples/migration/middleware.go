package migration

import (
	"context"
	"strings"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// MiddlewareBefore retries with go-grpc-middleware.
func MiddlewareBefore(logRetry retry.OnRetryCallback) []grpc.DialOption {
	options := []retry.CallOption{
		retry.WithMax(4),
		retry.WithBackoff(retry.BackoffExponentialWithJitter(100*time.Millisecond, 0.1)),
		retry.WithCodes(codes.Unavailable, codes.ResourceExhausted),
		retry.WithPerRetryTimeout(500 * time.Millisecond),
		retry.WithOnRetryCallback(logRetry),
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(options...)),
		grpc.WithChainStreamInterceptor(retry.StreamClientInterceptor(options...)),
	}
}

// MiddlewareAfter is the same with retrybudget, as near as it gets.
func MiddlewareAfter(logRetry retry.OnRetryCallback) ([]grpc.DialOption, error) {
	r, err := retrybudget.New(
		retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts:       4, // WithMax counts attempts too
			BackoffFunc:       retry.BackoffExponentialWithJitter(100*time.Millisecond, 0.1),
			RetryableCodes:    []codes.Code{codes.Unavailable, codes.ResourceExhausted},
			IdempotentCodes:   []codes.Code{codes.DeadlineExceeded}, // timeouts of attempts
			PerAttemptTimeout: 500 * time.Millisecond,
		}),
		retrybudget.WithObserver(retryLog{log: logRetry}),
	)
	if err != nil {
		return nil, err
	}
	return r.DialOptions(), nil
}

// retryLog calls what was given to WithOnRetryCallback.
type retryLog struct {
	retrybudget.NopObserver

	log retry.OnRetryCallback
}

// RetrySent is called when the wait for a retry is over. The callback was told
// the number of the retry, counted from 1.
func (l retryLog) RetrySent(e retrybudget.RetryEvent) {
	l.log(e.Call.Context, uint(e.Call.Attempt-1), e.Cause.Err)
}

// MiddlewareRetriableBefore decides by the error itself.
func MiddlewareRetriableBefore() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(
			retry.WithMax(3),
			retry.WithRetriable(func(err error) bool {
				return strings.Contains(err.Error(), "try another shard")
			}),
		)),
	}
}

// MiddlewareRetriableAfter is the same with retrybudget.
func MiddlewareRetriableAfter() ([]grpc.DialOption, error) {
	r, err := retrybudget.New(
		retrybudget.WithClassifier(func(_ retrybudget.CallInfo, err error) retrybudget.Verdict {
			if strings.Contains(err.Error(), "try another shard") {
				return retrybudget.Retry
			}
			return retrybudget.NoRetry // ByDefault: what the policy says
		}),
	)
	if err != nil {
		return nil, err
	}
	return r.DialOptions(), nil
}

// MiddlewareCallBefore gives single calls options of their own.
func MiddlewareCallBefore(ctx context.Context, client quickstartv1.InventoryServiceClient, req *quickstartv1.GetStockRequest) error {
	if _, err := client.GetStock(ctx, req, retry.Disable()); err == nil {
		return nil
	}
	_, err := client.GetStock(ctx, req,
		retry.WithMax(2),
		retry.WithCodes(codes.Unavailable, codes.Aborted),
		retry.WithPerRetryTimeout(time.Second),
		retry.WithBackoff(retry.BackoffLinear(10*time.Millisecond)),
	)
	return err
}

// MiddlewareCallAfter is the same with retrybudget.
func MiddlewareCallAfter(ctx context.Context, client quickstartv1.InventoryServiceClient, req *quickstartv1.GetStockRequest) error {
	if _, err := client.GetStock(ctx, req, retrybudget.CallDisabled()); err == nil {
		return nil
	}
	_, err := client.GetStock(ctx, req,
		retrybudget.CallMaxAttempts(2),
		retrybudget.CallRetryableCodes(codes.Unavailable, codes.Aborted),
		retrybudget.CallPerAttemptTimeout(time.Second),
		retrybudget.CallBackoff(retrybudget.ConstantBackoff(10*time.Millisecond)),
	)
	return err
}
