package rpctest

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Step answers one attempt: nil is OK with the request echoed.
type Step func(ctx context.Context, stream grpc.ServerStream) error

// OK answers OK.
func OK() Step { return func(context.Context, grpc.ServerStream) error { return nil } }

// Fail answers with a status.
func Fail(code codes.Code, text string) Step {
	return func(context.Context, grpc.ServerStream) error { return status.Error(code, text) }
}

// Unavailable answers UNAVAILABLE.
func Unavailable() Step { return Fail(codes.Unavailable, "unavailable") }

// Hang answers when the client has given up.
func Hang() Step {
	return func(ctx context.Context, _ grpc.ServerStream) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
}

// After lets time pass before the next step, or until the client gives up.
func After(d time.Duration, next Step) Step {
	return func(ctx context.Context, stream grpc.ServerStream) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return next(ctx, stream)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// WithTrailer sets a trailer, one value after the other, before the next step.
func WithTrailer(next Step, key string, values ...string) Step {
	return func(ctx context.Context, stream grpc.ServerStream) error {
		for _, v := range values {
			stream.SetTrailer(metadata.Pairs(key, v))
		}
		return next(ctx, stream)
	}
}

// WithHeader sends a response header before the next step.
func WithHeader(next Step, kv ...string) Step {
	return func(ctx context.Context, stream grpc.ServerStream) error {
		if err := stream.SendHeader(metadata.Pairs(kv...)); err != nil {
			return err
		}
		return next(ctx, stream)
	}
}

// Pushback sets grpc-retry-pushback-ms before the next step.
func Pushback(next Step, values ...string) Step {
	return WithTrailer(next, "grpc-retry-pushback-ms", values...)
}

// RetryInfo answers with a status that carries google.rpc.RetryInfo.
func RetryInfo(code codes.Code, delay time.Duration) Step {
	return func(context.Context, grpc.ServerStream) error {
		st, err := status.New(code, "come back later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
		if err != nil {
			return err
		}
		return st.Err()
	}
}
