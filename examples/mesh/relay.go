package main

import (
	"context"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// relay is A and B: it asks the next service and hands on the answer.
type relay struct {
	quickstartv1.UnimplementedInventoryServiceServer
	next quickstartv1.InventoryServiceClient
}

// GetStock makes a call of the request that it serves.
func (r *relay) GetStock(ctx context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	return r.next.GetStock(ctx, req)
}
