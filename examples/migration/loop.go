package migration

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// LoopBefore is the loop that people write by hand.
func LoopBefore(ctx context.Context, client quickstartv1.InventoryServiceClient, sku string) (*quickstartv1.GetStockResponse, error) {
	wait := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		attemptCtx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		resp, err := client.GetStock(attemptCtx, &quickstartv1.GetStockRequest{Sku: sku})
		cancel()
		code := status.Code(err)
		if err == nil || attempt == 3 || code != codes.Unavailable && code != codes.DeadlineExceeded {
			return resp, err
		}
		time.Sleep(wait) // on and on, also when the caller is gone
		wait *= 2
	}
}

// LoopAfterDial puts the retries on the connection.
func LoopAfterDial() ([]grpc.DialOption, error) {
	r, err := retrybudget.New(retrybudget.WithMethodPolicy(
		quickstartv1.InventoryService_GetStock_FullMethodName,
		retrybudget.Policy{
			MaxAttempts:       3,
			Backoff:           retrybudget.ExponentialBackoff{Initial: 100 * time.Millisecond},
			PerAttemptTimeout: 500 * time.Millisecond,
			Timeout:           2 * time.Second,
		},
	))
	if err != nil {
		return nil, err
	}
	return r.DialOptions(), nil
}

// LoopAfter makes one call.
func LoopAfter(ctx context.Context, client quickstartv1.InventoryServiceClient, sku string) (*quickstartv1.GetStockResponse, error) {
	return client.GetStock(ctx, &quickstartv1.GetStockRequest{Sku: sku})
}
