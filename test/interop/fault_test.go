package interop_test

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A fault is what a server does in place of its handlers.
type fault struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

// The faults. The first three let retries through only, so that each call takes
// two attempts. None of them sends a message, so streams are not committed.
var (
	failAtOnce       = firstAttempts(func(grpc.ServerStream) {})
	failAfterMessage = firstAttempts(receive)
	failAfterHeaders = firstAttempts(sendHeader)
	failAlways       = fault{
		unary: func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
			return nil, errAlways
		},
		stream: func(any, grpc.ServerStream, *grpc.StreamServerInfo, grpc.StreamHandler) error {
			return errAlways
		},
	}
)

var (
	errFirst = status.Error(codes.Unavailable, "first attempts fail")
	// errAlways is an answer that no function wants and no client retries.
	errAlways = status.Error(codes.DataLoss, "always fails")
)

// firstAttempts makes first attempts UNAVAILABLE, streams after doing before.
func firstAttempts(before func(grpc.ServerStream)) fault {
	return fault{
		unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if isFirst(ctx) {
				return nil, errFirst
			}
			return handler(ctx, req)
		},
		stream: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if isFirst(stream.Context()) {
				before(stream)
				return errFirst
			}
			return handler(srv, stream)
		},
	}
}

// isFirst knows retries by gRFC A6's header.
func isFirst(ctx context.Context) bool {
	return len(metadata.ValueFromIncomingContext(ctx, "grpc-previous-rpc-attempts")) == 0
}

// receive takes one message, or the half-close of a client that sends none. All
// requests have their payload in the same place, and it does not matter here.
func receive(stream grpc.ServerStream) { _ = stream.RecvMsg(&testpb.Empty{}) }

func sendHeader(stream grpc.ServerStream) {
	_ = stream.SendHeader(metadata.Pairs("from", "first attempt"))
}
