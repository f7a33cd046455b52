package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// naiveClient is the retry loop people write by hand.
func naiveClient(timeout time.Duration) (client, error) {
	return client{options: []grpc.DialOption{grpc.WithUnaryInterceptor(naiveInterceptor(timeout))}}, nil
}

func naiveInterceptor(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		var err error
		for range attempts {
			err = func() error {
				attempt := ctx
				if timeout > 0 {
					var cancel context.CancelFunc
					attempt, cancel = context.WithTimeout(ctx, timeout)
					defer cancel()
				}
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
