// Package breaker puts a circuit breaker inside retrybudget: the breaker sees
// every attempt, and what it refuses is not retried.
package breaker

import (
	"context"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

// UnaryClientInterceptor sends attempts through cb. What cb refuses is never
// sent and returns UNAVAILABLE, which says what the caller can do about it:
// come back later. Alone that code would be retried, against a breaker that is
// still open, so it is marked with [retrybudget.Final].
//
// Give it to grpc.NewClient after the options of [retrybudget.Retrier]; before
// them it would see calls instead of attempts.
func UnaryClientInterceptor(cb *gobreaker.CircuitBreaker[struct{}]) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		sent := false
		_, err := cb.Execute(func() (struct{}, error) {
			sent = true
			return struct{}{}, invoker(ctx, method, req, reply, cc, opts...)
		})
		if !sent {
			return retrybudget.Final(status.Error(codes.Unavailable, err.Error()))
		}
		return err
	}
}

// Answered is for gobreaker.Settings.IsSuccessful: an error counts against the
// dependency only if its code says that the dependency could not do its work.
// NOT_FOUND, say, is an answer.
func Answered(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unknown:
		return false
	default:
		return true
	}
}

// GivenUp is for gobreaker.Settings.IsExcluded: an attempt that the caller
// cancelled says nothing about the dependency.
func GivenUp(err error) bool { return status.Code(err) == codes.Canceled }
