package redis_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

func TestRedis_cluster(t *testing.T) {
	t.Parallel()
	var nodes []*server
	var addresses []string
	for range 3 {
		s := startServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no",
			"--cluster-port", strconv.Itoa(portOf(t, freeAddress(t))))
		nodes, addresses = append(nodes, s), append(addresses, s.address)
	}
	for i, s := range nodes {
		client := s.client()
		require.NoError(t, client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", i*5462, min(i*5462+5461, 16383)).Err())
		bus := nodes[0].client().ConfigGet(t.Context(), "cluster-port").Val()["cluster-port"]
		require.NoError(t, client.Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", nodes[0].port(), bus).Err())
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	require.Eventually(t, func() bool {
		for _, s := range nodes {
			info, err := s.client().ClusterInfo(t.Context()).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond, "all nodes know who has which slots")

	f := newFleet(t, client, redis.Config{Bucket: full})
	var budgets []retrybudget.Budget
	for i := range 12 {
		b, err := f.Budget("target", "/service/method"+strconv.Itoa(i))
		require.NoError(t, err)
		budgets = append(budgets, b)
		takeAll(t, b, 20)
		assert.False(t, b.TryTake(retrybudget.Cause{}))
	}
	for _, s := range nodes {
		assert.NotEmpty(t, s.client().Keys(t.Context(), "*").Val(), "the buckets are on all nodes")
	}
	assert.Zero(t, f.Stats().Failures)

	// One node is away: its buckets fall back, the others go on.
	nodes[2].kill()
	require.Eventually(t, func() bool {
		for _, b := range budgets {
			b.RecordSuccess()
		}
		away := f.Stats().Away
		return away > 0 && away < len(budgets)
	}, 30*time.Second, 50*time.Millisecond)
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	return (&server{t: t, address: address}).port()
}

// Behind Sentinel: the replica that takes over may be a little behind.
func TestRedis_sentinelFailover(t *testing.T) {
	t.Parallel()
	master := startServer(t, "--repl-diskless-sync-delay", "0")
	replica := startServer(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(master.port()))
	sentinel := startSentinel(t, master)
	atReplica, atSentinel := replica.client(), goredis.NewSentinelClient(&goredis.Options{Addr: sentinel.address})
	t.Cleanup(func() { atSentinel.Close() })
	require.Eventually(t, func() bool {
		up := atReplica.InfoMap(t.Context(), "replication").Val()["Replication"]["master_link_status"] == "up"
		known, err := atSentinel.Replicas(t.Context(), "budgets").Result()
		return up && err == nil && len(known) == 1
	}, 2*time.Minute, 50*time.Millisecond)

	client := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: "budgets", SentinelAddrs: []string{sentinel.address}, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	f := newFleet(t, client, redis.Config{Bucket: full})
	b := budgetOf(t, f)
	takeAll(t, b, 20)
	require.Eventually(t, func() bool {
		return atReplica.HGet(t.Context(), "retrybudget:{target|/service/method}", "level").Val() == "0"
	}, 20*time.Second, 10*time.Millisecond, "the replica has it all")
	require.NoError(t, sentinel.client().Do(t.Context(), "SENTINEL", "SET", "budgets", "down-after-milliseconds", "500").Err())
	master.kill()
	total := 0
	require.Eventually(t, func() bool {
		total += take(b, 1)
		return f.State() == redis.Fallback
	}, 30*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		total += take(b, 1)
		return f.State() == redis.Shared
	}, 2*time.Minute, 10*time.Millisecond) // Sentinel waits for 30 s when it was stopped for two
	assert.Zero(t, total)
	succeed(b, 50)
	takeAll(t, b, 5)
}

func startSentinel(t *testing.T, master *server) *server {
	t.Helper()
	s := &server{t: t, binary: master.binary, folder: t.TempDir()}
	for range 10 {
		s.address = freeAddress(t)
		file := filepath.Join(s.folder, "sentinel.conf")
		require.NoError(t, os.WriteFile(file, []byte(
			"bind 127.0.0.1\nport "+strconv.Itoa(s.port())+"\n"+
				"sentinel monitor budgets 127.0.0.1 "+strconv.Itoa(master.port())+" 1\n"+
				"sentinel down-after-milliseconds budgets 60000\n"+ // a busy machine must not look like a master that is away
				"sentinel failover-timeout budgets 5000\n"), 0o600))
		if s.run(file, "--sentinel") {
			t.Cleanup(s.kill)
			return s
		}
	}
	require.Fail(t, "Sentinel does not start")
	return nil
}
