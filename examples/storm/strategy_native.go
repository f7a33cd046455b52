package main

import (
	"fmt"

	"google.golang.org/grpc"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

const nativeRetryPolicy = `{
	"methodConfig": [{
		"name": [{"service": %q}],
		"retryPolicy": {
			"maxAttempts": 3,
			"initialBackoff": "0.05s",
			"maxBackoff": "1s",
			"backoffMultiplier": 2,
			"retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]%s
}`

const nativeThrottling = `,
	"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}`

// dialNative uses the retries built into grpc-go. They know no attempt timeout:
// a call that waits in a queue stays one attempt until its deadline.
func dialNative(throttled bool) func(config) ([]grpc.DialOption, error) {
	throttling := ""
	if throttled {
		throttling = nativeThrottling
	}
	return func(config) ([]grpc.DialOption, error) {
		serviceConfig := fmt.Sprintf(nativeRetryPolicy, quickstartv1.InventoryService_ServiceDesc.ServiceName, throttling)
		return []grpc.DialOption{grpc.WithDefaultServiceConfig(serviceConfig)}, nil
	}
}
