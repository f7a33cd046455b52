package main

import (
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
)

// dialMiddleware uses go-grpc-middleware's retry. Its WithMax counts attempts.
func dialMiddleware(c config) ([]grpc.DialOption, error) {
	return []grpc.DialOption{grpc.WithUnaryInterceptor(retry.UnaryClientInterceptor(
		retry.WithMax(3),
		retry.WithPerRetryTimeout(c.AttemptTimeout),
	))}, nil
}
