package retrybudget

import (
	"context"
	"math"
	"strconv"

	"google.golang.org/grpc/metadata"
)

// attemptCounter is a header that counts attempts, and by how much it exceeds
// the number of attempts before the one that carries it.
type attemptCounter struct {
	header string
	excess int
}

// knownAttemptHeaders are gRFC A6's, go-grpc-middleware's and Envoy's; the last
// counts from 1.
var knownAttemptHeaders = []attemptCounter{
	{attemptHeader, 0},
	{"x-retry-attempt", 0},
	{"x-envoy-attempt-count", 1},
}

// AttemptFromIncomingContext returns the number of the attempt that a handler's
// context belongs to, counted from 1: one more than the largest count of previous
// attempts in grpc-previous-rpc-attempts (gRFC A6), x-retry-attempt
// (go-grpc-middleware) and x-envoy-attempt-count less one (Envoy). Values that
// are no such count are ignored. It works with and without the server
// interceptors; only under them does it see the headers of
// [WithIncomingAttemptHeader].
func AttemptFromIncomingContext(ctx context.Context) int {
	if s := slotFrom(ctx); s != nil {
		return s.attempt
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return incomingAttempt(md, knownAttemptHeaders)
}

func incomingAttempt(md metadata.MD, counters []attemptCounter) int {
	before := 0
	for _, c := range counters {
		for _, v := range md[c.header] {
			if n, err := strconv.ParseUint(v, 10, 31); err == nil {
				before = max(before, int(n)-c.excess)
			}
		}
	}
	return min(before, math.MaxInt32-1) + 1
}
