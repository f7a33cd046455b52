package redis_test

import (
	"context"
	"log"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

func ExampleNew() {
	client := goredis.NewClient(&goredis.Options{
		Addr:                  "redis.example.com:6379",
		ContextTimeoutEnabled: true, // an exchange ends after Config.Timeout
	})
	defer client.Close()
	fleet, err := redis.New(client, redis.Config{
		Bucket:   retrybudget.TokenBucketConfig{Capacity: 50}, // for all processes together
		Replicas: 10,                                          // while Redis is away, each has a tenth of that
		OnState: func(s redis.State, cause error) {
			log.Printf("retry budget: %v (%v)", s, cause)
		},
	})
	if err != nil {
		log.Print(err)
		return
	}
	retrier, err := retrybudget.New(retrybudget.WithBudget(fleet.Budget))
	if err != nil {
		log.Print(err)
		return
	}
	_ = retrier // its DialOptions go into grpc.NewClient

	// At the end of the program, before the client is closed.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := fleet.Close(ctx); err != nil {
		log.Print(err)
	}
}

// One budget for all methods of a target, and one for each method: a retry pays in
// both.
func ExampleFleet_Budget() {
	client := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}})
	defer client.Close()
	fleet, err := redis.New(client, redis.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	defer fleet.Close(context.Background())
	perTarget := func(target, _ string) (retrybudget.Budget, error) { return fleet.Budget(target, "") }
	retrier, err := retrybudget.New(retrybudget.WithBudget(
		retrybudget.Both(retrybudget.PerMethod(retrybudget.TokenBucketConfig{}), perTarget)))
	if err != nil {
		log.Print(err)
		return
	}
	_ = retrier
}
