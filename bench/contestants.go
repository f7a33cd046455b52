package main

import (
	"context"
	"time"

	fbudget "github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"

	rb "github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/prometheus"
)

// maxAttempts is what every contestant may make of a call.
const maxAttempts = 3

// newRetrier returns a Retrier with the given budget that waits for nothing
// before a retry, as all contestants here do.
func newRetrier(budget rb.BudgetFactory, more ...rb.Option) (*rb.Retrier, error) {
	return rb.New(append(more,
		rb.WithBudget(budget),
		rb.WithPolicy(rb.Policy{MaxAttempts: maxAttempts, Backoff: rb.ConstantBackoff(0)}),
	)...)
}

func retrybudgetWith(budget rb.BudgetFactory, more ...rb.Option) (grpc.UnaryClientInterceptor, error) {
	r, err := newRetrier(budget, more...)
	if err != nil {
		return nil, err
	}
	return r.UnaryClientInterceptor(), nil
}

// retrybudgetDeposits has a budget that never gets full, so that every call pays
// for a deposit.
func retrybudgetDeposits() (grpc.UnaryClientInterceptor, error) {
	return retrybudgetWith(rb.PerMethod(rb.TokenBucketConfig{Capacity: 1_000_000_000, Ratio: 0.001}))
}

// retrybudgetDefault has the default budget, which is full after 200 successes.
func retrybudgetDefault() (grpc.UnaryClientInterceptor, error) {
	return retrybudgetWith(rb.PerMethod(rb.TokenBucketConfig{}))
}

// retrybudgetObserved is retrybudgetDeposits with Prometheus metrics.
func retrybudgetObserved() (grpc.UnaryClientInterceptor, error) {
	return retrybudgetWith(rb.PerMethod(rb.TokenBucketConfig{Capacity: 1_000_000_000, Ratio: 0.001}), rb.WithObserver(prometheus.NewMetrics()))
}

// retrybudgetUnlimited retries as often as it is asked to.
func retrybudgetUnlimited() (grpc.UnaryClientInterceptor, error) {
	return retrybudgetWith(rb.Unlimited())
}

// middlewareInterceptor is go-grpc-middleware's retry. Its WithMax counts
// attempts. It has no budget.
func middlewareInterceptor() (grpc.UnaryClientInterceptor, error) {
	return retry.UnaryClientInterceptor(
		retry.WithMax(maxAttempts),
		retry.WithBackoff(func(context.Context, uint) time.Duration { return 0 }),
	), nil
}

// retrybudgetStreams has the default budget.
func retrybudgetStreams() (grpc.StreamClientInterceptor, error) {
	r, err := newRetrier(rb.PerMethod(rb.TokenBucketConfig{}))
	if err != nil {
		return nil, err
	}
	return r.StreamClientInterceptor(), nil
}

// middlewareStreams is go-grpc-middleware's retry of server streams.
func middlewareStreams() (grpc.StreamClientInterceptor, error) {
	return retry.StreamClientInterceptor(
		retry.WithMax(maxAttempts),
		retry.WithBackoff(func(context.Context, uint) time.Duration { return 0 }),
	), nil
}

// failsafeInterceptor is failsafe-go's retry policy with its default budget,
// which is shared by all calls and always lets three retries run at a time.
func failsafeInterceptor() (grpc.UnaryClientInterceptor, error) {
	return failsafegrpc.NewUnaryClientInterceptor(failsafegrpc.NewRetryPolicyBuilder[any]().
		WithMaxAttempts(maxAttempts).
		WithBudget(fbudget.New()).
		ReturnLastFailure().
		Build()), nil
}

// nativeServiceConfig switches grpc-go's own retries on. A backoff of nothing is
// refused; this is the least there is.
const nativeServiceConfig = `{"methodConfig": [{
	"name": [{"service": "retrybudget.quickstart.v1.InventoryService"}],
	"retryPolicy": {
		"maxAttempts": 3,
		"initialBackoff": "0.000000001s",
		"maxBackoff": "0.000000001s",
		"backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}
}]}`

// intercepted puts an interceptor on a connection.
func intercepted(build func() (grpc.UnaryClientInterceptor, error)) func() ([]grpc.DialOption, error) {
	return func() ([]grpc.DialOption, error) {
		i, err := build()
		if err != nil {
			return nil, err
		}
		return []grpc.DialOption{grpc.WithUnaryInterceptor(i)}, nil
	}
}

// interceptedStreams puts a stream interceptor on a connection.
func interceptedStreams(build func() (grpc.StreamClientInterceptor, error)) func() ([]grpc.DialOption, error) {
	return func() ([]grpc.DialOption, error) {
		i, err := build()
		if err != nil {
			return nil, err
		}
		return []grpc.DialOption{grpc.WithStreamInterceptor(i)}, nil
	}
}

// dialRetrybudget puts a Retrier on a connection the way its users do.
func dialRetrybudget(budget rb.BudgetFactory) func() ([]grpc.DialOption, error) {
	return func() ([]grpc.DialOption, error) {
		r, err := newRetrier(budget)
		if err != nil {
			return nil, err
		}
		return r.DialOptions(), nil
	}
}

// dialDefault has the default budget, which is full after 200 successes.
func dialDefault() ([]grpc.DialOption, error) {
	return dialRetrybudget(rb.PerMethod(rb.TokenBucketConfig{}))()
}

func dialNative() ([]grpc.DialOption, error) {
	return []grpc.DialOption{grpc.WithDefaultServiceConfig(nativeServiceConfig)}, nil
}

func dialBare() ([]grpc.DialOption, error) { return nil, nil }
