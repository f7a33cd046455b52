package main

import (
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
)

// middlewareClient uses go-grpc-middleware's retry. Its WithMax counts attempts,
// and its 0 is no limit of an attempt.
func middlewareClient(timeout time.Duration) (client, error) {
	return client{options: []grpc.DialOption{grpc.WithUnaryInterceptor(retry.UnaryClientInterceptor(
		retry.WithMax(attempts),
		retry.WithPerRetryTimeout(timeout),
	))}}, nil
}
