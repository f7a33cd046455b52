// Package migration is the code of docs/migration.md: how a client retries before
// and after it moves to retrybudget, from go-grpc-middleware's retry, grpc-go's
// retryPolicy, failsafe-go and a loop written by hand. The tests hold each pair
// against the same server and count what arrives there.
package migration
