package config_test

import (
	"context"
	"log"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

const (
	getStock     = quickstartv1.InventoryService_GetStock_FullMethodName
	reserveStock = quickstartv1.InventoryService_ReserveStock_FullMethodName
)

// blockOf returns the first block of code of a document in a language.
func blockOf(doc, language string) string {
	text, err := os.ReadFile(doc)
	if err != nil {
		log.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n```"+language+"\n")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		log.Fatalf("%s has no block of %s", doc, language)
	}
	return block
}

// attemptsOfFailure makes forty calls of a method that succeed, so that there are
// tokens, and then one that fails, and returns how often that one was tried.
func attemptsOfFailure(r *retrybudget.Retrier, method string) int64 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	var attempts atomic.Int64
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if attempts.Add(1) > 40 {
			return status.Error(codes.Unavailable, "restarting")
		}
		return stream.SendMsg(&emptypb.Empty{})
	}))
	conn, err := grpc.NewClient(l.Addr().String(), append(r.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(l) }() // ends with Stop
	defer server.Stop()
	defer conn.Close()
	for range 41 {
		err = conn.Invoke(context.Background(), method, &emptypb.Empty{}, &emptypb.Empty{})
	}
	if status.Code(err) != codes.Unavailable {
		panic(err)
	}
	return attempts.Load() - 40
}
