// Package redis gives all processes of a fleet one retry budget, kept in Redis:
// for a dependency with a hard limit, where the budgets of ten processes must not
// add up to ten times that of one.
//
//	fleet, err := redis.New(client, redis.Config{Replicas: 10})
//	…
//	retrier, err := retrybudget.New(retrybudget.WithBudget(fleet.Budget))
//
// Each (target, method) has one token bucket for all processes. No call waits for
// Redis: a process holds a few tokens in hand, takes retries from those, and a
// goroutine of the [Fleet] exchanges reports of successes for new tokens every
// [Config.Period], one script for each bucket, all of them in one round trip. A
// retry that finds nothing in hand is refused at once, as with an empty bucket.
//
// While Redis is slow, away, or answers nonsense, the budget goes on with what it
// has: see [Config.Replicas]. It comes back by itself.
//
// # The bound
//
// Every token is in one place: in the pool, in the hand of one process, spent, or
// lost. Tokens come from successes alone, [retrybudget.TokenBucketConfig.Ratio]
// each, and once for a new bucket from Initial. While Redis keeps its data, pool
// and hands together hold at most the capacity, so that over any window
//
//	retries of all processes ≤ Capacity + Ratio × successes
//
// where successes from one Period and two Timeouts before the window count too,
// because they may have been reported in it. What a killed process had in hand is
// lost. If Redis loses data or contact, the same holds with
// max(Lease, Capacity/Replicas) more tokens for each process. The reasons, and
// what happens in every kind of failure, are in docs/fleet.md of the repository.
//
// # Redis
//
// Redis 6 or later, or Valkey; single, behind Sentinel, or a cluster: whatever the
// client is for. TLS, user and database are the client's. The script needs the
// commands EVALSHA, EVAL, TIME, HMGET, HGETALL, HSET, HDEL, DEL and PEXPIRE, on
// keys that begin with the prefix. The client's timeouts bound how long a
// goroutine of the Fleet may hang; with ContextTimeoutEnabled, [Config.Timeout]
// does.
package redis
