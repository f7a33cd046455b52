package redis_test

import (
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// newFleet starts a Fleet that ends before its client does. Without a Timeout it
// has a long one: a machine that is busy must not look like a Redis that is away.
func newFleet(t *testing.T, client goredis.UniversalClient, cfg redis.Config) *redis.Fleet {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	f, err := redis.New(client, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close(background(t)) }) // most tests leave the server broken
	return f
}

// takeAll takes a number of tokens, as they come.
func takeAll(t *testing.T, b retrybudget.Budget, want int) {
	t.Helper()
	total := 0
	require.Eventually(t, func() bool {
		total += take(b, want-total)
		return total == want
	}, 20*time.Second, 5*time.Millisecond, "the bucket does not hold %d", want)
}

func isIn(f *redis.Fleet, s redis.State) func() bool {
	return func() bool { return f.State() == s && f.Stats().Exchanges+f.Stats().Failures > 0 }
}

func TestRedis_wholeLife(t *testing.T) {
	t.Parallel()
	client := startServer(t).client()
	// Any bytes may be in a name.
	for _, n := range [][2]string{
		{"dns:///inventory.example.com:443", "/shop.Inventory/GetStock"},
		{"{}", "}{"},
		{"a|b", "c"},
		{"a", "b|c"},
		{"\x00\xff\r\n \"", "%7C*?[]"},
		{"", "only the method"},
		{"only the target", ""},
	} {
		f := newFleet(t, client, redis.Config{Bucket: full, Prefix: "a {strange} prefix|"})
		b, err := f.Budget(n[0], n[1])
		require.NoError(t, err)
		takeAll(t, b, 20)
		succeed(b, 100)
		takeAll(t, b, 10)
		succeed(b, 50)
		require.NoError(t, f.Close(t.Context()))

		f = newFleet(t, client, redis.Config{Bucket: full, Prefix: "a {strange} prefix|"})
		b, err = f.Budget(n[0], n[1])
		require.NoError(t, err)
		takeAll(t, b, 5)
		assert.False(t, b.TryTake(retrybudget.Cause{}))
	}
	keys := client.Keys(t.Context(), "*").Val()
	slices.Sort(keys)
	assert.Equal(t, []string{
		"a%20%7Bstrange%7D%20prefix%7C:{%00%FF%0D%0A%20\"|%257C*?[]}",
		"a%20%7Bstrange%7D%20prefix%7C:{%7B%7D|%7D%7B}",
		"a%20%7Bstrange%7D%20prefix%7C:{a%7Cb|c}",
		"a%20%7Bstrange%7D%20prefix%7C:{a|b%7Cc}",
		"a%20%7Bstrange%7D%20prefix%7C:{dns:///inventory.example.com:443|/shop.Inventory/GetStock}",
		"a%20%7Bstrange%7D%20prefix%7C:{only%20the%20target|}",
		"a%20%7Bstrange%7D%20prefix%7C:{|only%20the%20method}",
	}, keys)
	for _, key := range keys {
		ttl := client.PTTL(t.Context(), key).Val()
		assert.Greater(t, ttl, 59*time.Minute)
		assert.LessOrEqual(t, ttl, time.Hour)
	}
}

func TestRedis_unusedBucketExpires(t *testing.T) {
	t.Parallel()
	client := startServer(t).client()
	f := newFleet(t, client, redis.Config{Bucket: full, Idle: 100 * time.Millisecond, TTL: 500 * time.Millisecond})
	b := budgetOf(t, f)
	require.Eventually(t, func() bool {
		b.TryTake(retrybudget.Cause{})
		return f.Stats().Granted > 0
	}, 20*time.Second, 5*time.Millisecond, "there is a bucket")
	require.Eventually(t, func() bool { return len(client.Keys(t.Context(), "*").Val()) == 0 }, 20*time.Second, 10*time.Millisecond)
	assert.Zero(t, f.Stats().Failures)
}

func TestRedis_scriptFlushed(t *testing.T) {
	t.Parallel()
	client := startServer(t).client()
	f := newFleet(t, client, redis.Config{})
	b := budgetOf(t, f)
	for range 5 {
		succeed(b, 50)
		takeAll(t, b, 5)
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
	}
	assert.Zero(t, f.Stats().Failures)
}

func TestRedis_wiped(t *testing.T) {
	t.Parallel()
	client := startServer(t).client()
	f := newFleet(t, client, redis.Config{Bucket: full})
	b := budgetOf(t, f)
	takeAll(t, b, 20)
	for range 3 {
		lost := f.Stats().Lost
		require.NoError(t, client.FlushAll(t.Context()).Err())
		require.Eventually(t, func() bool {
			assert.False(t, b.TryTake(retrybudget.Cause{}))
			return f.Stats().Lost == lost+1
		}, 20*time.Second, 5*time.Millisecond)
	}
	succeed(b, 50)
	takeAll(t, b, 5)
}

// A server that comes back with an old file has tokens again that were spent.
func TestRedis_restartedFromAnOldFile(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := s.client()
	f := newFleet(t, client, redis.Config{Bucket: full})
	b := budgetOf(t, f)
	takeAll(t, b, 10)
	require.NotEqual(t, "0", client.HGet(t.Context(), "retrybudget:{target|/service/method}", "level").Val(), "the file has tokens")
	require.Eventually(t, func() bool { return client.Save(t.Context()).Err() == nil }, 20*time.Second, 10*time.Millisecond)
	takeAll(t, b, 10)
	s.kill()
	require.Eventually(t, func() bool {
		assert.False(t, b.TryTake(retrybudget.Cause{}))
		return f.State() == redis.Fallback
	}, 20*time.Second, 5*time.Millisecond)
	s.restart()
	require.Eventually(t, func() bool {
		assert.False(t, b.TryTake(retrybudget.Cause{}))
		return f.Stats().Lost == 1
	}, 20*time.Second, 5*time.Millisecond)
	succeed(b, 50)
	takeAll(t, b, 5)
}

// User, password and database are the client's; these rights are enough.
func TestRedis_aclUser(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := s.client()
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "budgets", "on", ">secret", "resetkeys", "~retrybudget:*", "-@all",
		"+evalsha", "+eval", "+time", "+hmget", "+hgetall", "+hset", "+hdel", "+del", "+pexpire", "+hello", "+select").Err())
	client := goredis.NewClient(&goredis.Options{Addr: s.address, Username: "budgets", Password: "secret", DB: 3})
	t.Cleanup(func() { client.Close() })
	f := newFleet(t, client, redis.Config{Bucket: full})
	takeAll(t, budgetOf(t, f), 20)
	assert.Zero(t, f.Stats().Failures)
	assert.Empty(t, admin.Keys(t.Context(), "*").Val())
}

// A server without memory refuses to write: that is one more way to be away.
func TestRedis_outOfMemory(t *testing.T) {
	t.Parallel()
	client := startServer(t).client()
	f := newFleet(t, client, redis.Config{})
	b := budgetOf(t, f)
	succeed(b, 50)
	takeAll(t, b, 5)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	succeed(b, 50)
	require.Eventually(t, isIn(f, redis.Fallback), 20*time.Second, 5*time.Millisecond)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Eventually(t, isIn(f, redis.Shared), 20*time.Second, 5*time.Millisecond)
	succeed(b, 50)
	takeAll(t, b, 5)
}

// Something that is not Redis answers at its address.
func TestRedis_garbage(t *testing.T) {
	t.Parallel()
	var connections sync.WaitGroup
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { babble(conn) })
		}
	})
	t.Cleanup(connections.Wait)
	t.Cleanup(func() { listener.Close() })

	client := goredis.NewClient(&goredis.Options{Addr: listener.Addr().String(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	f := newFleet(t, client, redis.Config{Replicas: 10, Timeout: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond})
	b := budgetOf(t, f)
	succeed(b, 1)
	require.Eventually(t, isIn(f, redis.Fallback), 20*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return f.Stats().Failures > 20 }, time.Minute, 5*time.Millisecond)
	assert.Zero(t, f.Stats().Exchanges)
	succeed(b, 30)
	require.Eventually(t, func() bool { return b.TryTake(retrybudget.Cause{}) }, 20*time.Second, 5*time.Millisecond)
	assert.LessOrEqual(t, take(b, 100), 2)
}

// babble answers what it is sent with what may look like Redis.
func babble(conn net.Conn) {
	defer conn.Close()
	sayings := []string{
		"+OK\r\n", "-ERR no\r\n", ":7\r\n", "$-1\r\n", "*0\r\n", "$5\r\nhello\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
		"*6\r\n$2\r\nok\r\n$1\r\ne\r\n:1\r\n:99999999\r\n:0\r\n:1\r\n", "*6\r\n$2\r\nok\r\n$1\r\ne\r\n:1\r\n:0\r\n:4000000\r\n:1\r\n",
		"\x00\xff", "*1000000\r\n", "$99\r\nshort\r\n",
	}
	buffer := make([]byte, 4096)
	for {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
		for range 1 + rand.IntN(3) {
			conn.Write([]byte(sayings[rand.IntN(len(sayings))])) //nolint:errcheck // the next read fails
		}
		if rand.IntN(4) == 0 {
			return
		}
	}
}
