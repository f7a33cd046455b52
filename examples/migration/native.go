package migration

import (
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

// ServiceConfig is what the client or its resolver has had so far.
const ServiceConfig = `{
	"methodConfig": [{
		"name": [{"service": "retrybudget.quickstart.v1.InventoryService"}],
		"timeout": "2s",
		"retryPolicy": {
			"maxAttempts": 4,
			"initialBackoff": "0.1s",
			"maxBackoff": "1s",
			"backoffMultiplier": 2,
			"retryableStatusCodes": ["UNAVAILABLE"]
		}
	}],
	"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}`

// NativeBefore lets grpc-go retry.
func NativeBefore() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultServiceConfig(ServiceConfig),
	}
}

// NativeAfter reads the same text into retrybudget.
func NativeAfter() ([]grpc.DialOption, error) {
	cfg, err := serviceconfig.Parse([]byte(ServiceConfig), serviceconfig.CapAttempts())
	if err != nil {
		return nil, err
	}
	r, err := retrybudget.New(retrybudget.WithConfig(cfg))
	if err != nil {
		return nil, err
	}
	return r.DialOptions(), nil
}

// NativeAfterResolver takes the policies from the service config that the resolver
// delivers, here the default one. Its retryThrottling is not read: a budget is the
// client's own.
func NativeAfterResolver() ([]grpc.DialOption, error) {
	r, err := retrybudget.New(
		retrybudget.WithResolverPolicies(),
		retrybudget.WithBudget(retrybudget.PerTarget(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1})),
	)
	if err != nil {
		return nil, err
	}
	return append(r.DialOptions(), grpc.WithDefaultServiceConfig(ServiceConfig)), nil
}

// NativeAfterInCode says the same in the program.
func NativeAfterInCode() ([]grpc.DialOption, error) {
	r, err := retrybudget.New(
		retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 1}), // what no entry names
		retrybudget.WithMethodPolicy("/retrybudget.quickstart.v1.InventoryService/", policy()),
		retrybudget.WithBudget(retrybudget.PerTarget(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1})),
	)
	if err != nil {
		return nil, err
	}
	return r.DialOptions(), nil
}
