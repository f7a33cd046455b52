package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// dialNaive is the retry loop people write by hand. With one attempt it is the
// control: the same client without retries.
func dialNaive(attempts int) func(config) ([]grpc.DialOption, error) {
	return func(c config) ([]grpc.DialOption, error) {
		return []grpc.DialOption{grpc.WithUnaryInterceptor(naiveInterceptor(c, attempts))}, nil
	}
}

func naiveInterceptor(c config, attempts int) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		var err error
		for range attempts {
			err = func() error {
				attempt, cancel := context.WithTimeout(ctx, c.AttemptTimeout)
				defer cancel()
				return invoker(attempt, method, req, reply, cc, opts...)
			}()
			code := status.Code(err)
			if ctx.Err() != nil || (code != codes.Unavailable && code != codes.DeadlineExceeded) {
				break
			}
		}
		return err
	}
}
