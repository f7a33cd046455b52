// Package naive is the retry loop that people write by hand.
package naive

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Interceptor makes up to a number of attempts, one right after the other, each
// with a timeout of its own, 0 for none. UNAVAILABLE and timeouts are retried.
// With one attempt it is the control: the same client without retries.
func Interceptor(attempts int, timeout time.Duration) grpc.UnaryClientInterceptor {
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
