// Package loopback joins the clients and servers of the example programs by real
// gRPC over loopback TCP, and counts the attempts where they arrive.
package loopback

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// Serve starts a server on a free port and returns its address. The counter is
// the first thing that attempts meet there, so it counts also those that are
// refused; after the server's Stop it counts nothing any more.
func Serve(service quickstartv1.InventoryServiceServer, n *Counter, more ...grpc.ServerOption) (*grpc.Server, string, error) {
	options := []grpc.ServerOption{grpc.WaitForHandlers(true), grpc.ChainUnaryInterceptor(n.intercept)}
	server := grpc.NewServer(append(options, more...)...)
	quickstartv1.RegisterInventoryServiceServer(server, service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	go server.Serve(listener) //nolint:errcheck // ends with Stop; a broken listener shows in Connect
	return server, listener.Addr().String(), nil
}

// Connect returns a connection that stands.
func Connect(ctx context.Context, target string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, err
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			conn.Close()
			return nil, fmt.Errorf("connecting to %s: %w", target, ctx.Err())
		}
	}
	return conn, nil
}
