package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// refusals is how many attempts an inventory refuses before it answers.
const refusals = 2

// inventory is the server's side: it notes every attempt that arrives.
type inventory struct {
	quickstartv1.UnimplementedInventoryServiceServer

	mu   sync.Mutex
	seen []attempt
}

// attempt is one attempt as it arrived.
type attempt struct {
	previous string        // value of grpc-previous-rpc-attempts, empty when absent
	left     time.Duration // until its deadline
}

// arrive notes an attempt, and refuses the first ones.
func (i *inventory) arrive(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	a := attempt{previous: strings.Join(md.Get("grpc-previous-rpc-attempts"), ",")}
	if deadline, ok := ctx.Deadline(); ok {
		a.left = time.Until(deadline)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen = append(i.seen, a)
	if len(i.seen) <= refusals {
		return status.Error(codes.Unavailable, "the warehouse database is restarting")
	}
	return nil
}

func (i *inventory) attempts() []attempt {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.seen)
}

// GetStock answers with the same stock for every article.
func (i *inventory) GetStock(ctx context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	if err := i.arrive(ctx); err != nil {
		return nil, err
	}
	return &quickstartv1.GetStockResponse{Sku: req.GetSku(), Quantity: 12}, nil
}

// WatchStock sends three stocks and ends.
func (i *inventory) WatchStock(req *quickstartv1.WatchStockRequest, stream grpc.ServerStreamingServer[quickstartv1.WatchStockResponse]) error {
	if err := i.arrive(stream.Context()); err != nil {
		return err
	}
	for _, quantity := range []int64{12, 11, 10} {
		if err := stream.Send(&quickstartv1.WatchStockResponse{Sku: req.GetSku(), Quantity: quantity}); err != nil {
			return err
		}
	}
	return nil
}

// serve starts an inventory on a free port of the loopback interface. stop ends
// it and waits for that.
func serve(ctx context.Context, i *inventory) (address string, stop func(), err error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("no loopback port to serve on: %w", err)
	}
	server := grpc.NewServer()
	quickstartv1.RegisterInventoryServiceServer(server, i)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Stop
	}()
	return listener.Addr().String(), func() {
		server.Stop()
		<-done
	}, nil
}
