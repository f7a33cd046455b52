package migration

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// policy is the retryPolicy and the timeout of ServiceConfig.
func policy() retrybudget.Policy {
	return retrybudget.Policy{
		MaxAttempts: 4,
		Backoff: retrybudget.ExponentialBackoff{
			Initial:    100 * time.Millisecond,
			Max:        time.Second,
			Multiplier: 2,
			Jitter:     retrybudget.JitterA6,
		},
		RetryableCodes: []codes.Code{codes.Unavailable},
		Timeout:        2 * time.Second,
	}
}
