package prometheus_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

const nativeRetries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
}}]}`

// Where several layers retry, the attempts are those that this one sent.
func TestMetrics_attemptsOfThisLayer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		options  func(*retrybudget.Retrier) []grpc.DialOption
		atServer int
	}{
		{"the same Retrier twice", func(r *retrybudget.Retrier) []grpc.DialOption { return append(r.DialOptions(), r.DialOptions()...) }, 3},
		{"over grpc-go's own retries", func(r *retrybudget.Retrier) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithUnaryInterceptor(r.UnaryClientInterceptor()), grpc.WithDefaultServiceConfig(nativeRetries)}
		}, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				r, m := observed(t, atOnce(3))

				require.Error(t, rpctest.Call(t.Context(), s.Dial(t, tt.options(r)...)))

				got := collect(t, m)
				assert.Equal(t, tt.atServer, s.Attempts(""))
				assert.InDelta(t, 1, got.sum("calls_total"), 0)
				assert.InDelta(t, 3, got.sum("attempts_total"), 0)
				assert.InDelta(t, 2, got.sum("retries_total"), 0)
			})
		})
	}
}
