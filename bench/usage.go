package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// messages is how many a stream carries one way. The figures of sections about
// streams are for one of them.
const messages = 1_000

// A usage is one way to use a stream of so many messages. Messages are reused, so
// that allocations are those of gRPC and of interceptors.
type usage func(context.Context, quickstartv1.InventoryServiceClient) error

var errMessages = errors.New("bench: not as many messages arrived as were sent")

// receive is a server stream, received to its end.
func receive(ctx context.Context, client quickstartv1.InventoryServiceClient) error {
	stream, err := client.WatchStock(ctx, &quickstartv1.WatchStockRequest{Sku: "A-113"})
	if err != nil {
		return err
	}
	m := new(quickstartv1.WatchStockResponse)
	for range messages {
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
	}
	if err := stream.RecvMsg(m); !errors.Is(err, io.EOF) {
		return errMessages
	}
	return nil
}

// send is a client stream, which is kept for replay from its first message to
// its last.
func send(ctx context.Context, client quickstartv1.InventoryServiceClient) error {
	stream, err := client.ImportStock(ctx)
	if err != nil {
		return err
	}
	return sendAll(stream)
}

// sendCommitted asks for the server's headers before the first message, which
// commits the stream.
func sendCommitted(ctx context.Context, client quickstartv1.InventoryServiceClient) error {
	stream, err := client.ImportStock(ctx)
	if err != nil {
		return err
	}
	if _, err := stream.Header(); err != nil {
		return err
	}
	return sendAll(stream)
}

func sendAll(stream grpc.ClientStreamingClient[quickstartv1.ImportStockRequest, quickstartv1.ImportStockResponse]) error {
	delivery := &quickstartv1.ImportStockRequest{Sku: "A-113", Quantity: 7, Note: "pallet 4, from the second truck"}
	for range messages {
		if err := stream.Send(delivery); err != nil {
			return err
		}
	}
	_, err := stream.CloseAndRecv()
	return err
}
