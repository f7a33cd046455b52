package otel_test

import (
	"context"
	"log"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// inventory is a server that is unavailable for the first few attempts.
type inventory struct {
	quickstartv1.UnimplementedInventoryServiceServer
	failures atomic.Int64
}

func (s *inventory) GetStock(_ context.Context, req *quickstartv1.GetStockRequest) (*quickstartv1.GetStockResponse, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "restarting")
	}
	return &quickstartv1.GetStockResponse{Sku: req.GetSku(), Quantity: 12}, nil
}

// startInventory serves on the loopback interface until stop is called.
func startInventory(failures int64) (target string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	service := new(inventory)
	service.failures.Store(failures)
	server := grpc.NewServer()
	quickstartv1.RegisterInventoryServiceServer(server, service)
	go func() { _ = server.Serve(l) }() // ends with Stop
	return l.Addr().String(), server.Stop
}

// getStock makes one call over a new connection.
func getStock(target string, options ...grpc.DialOption) {
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err == nil {
		_, err = quickstartv1.NewInventoryServiceClient(conn).GetStock(context.Background(), &quickstartv1.GetStockRequest{Sku: "tea"})
		conn.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
}
