package redis_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// proxy stands before a server. While it cuts, requests with the script arrive
// there, and their connection breaks before the answer.
type proxy struct {
	address string
	server  string
	cuts    atomic.Bool
	cut     atomic.Int64 // answers
	all     sync.WaitGroup
}

func startProxy(t *testing.T, s *server) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), server: s.address}
	p.all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.join(conn) })
		}
	})
	t.Cleanup(p.all.Wait)
	t.Cleanup(func() { listener.Close() })
	return p
}

func (p *proxy) join(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	var script atomic.Bool // was asked for
	p.all.Go(func() {
		defer server.Close()
		relay(server, client, func(data []byte) bool {
			if bytes.Contains(data, []byte("evalsha")) {
				script.Store(true)
			}
			return true
		})
	})
	relay(client, server, func([]byte) bool {
		if p.cuts.Load() && script.Load() {
			p.cut.Add(1)
			return false
		}
		return true
	})
}

// relay passes on what comes, until one end is gone or pass says no.
func relay(to, from net.Conn, pass func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !pass(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// The client would send a command again whose answer did not come. These it must
// not: Redis has done them.
func TestRedis_lostAnswersReportNothingTwice(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := startProxy(t, s)
	client := goredis.NewClient(&goredis.Options{Addr: p.address, MaxRetries: 5})
	t.Cleanup(func() { client.Close() })
	f := newFleet(t, client, redis.Config{Bucket: retrybudget.TokenBucketConfig{Capacity: 1000}})
	b := budgetOf(t, f)
	succeed(b, 10)
	takeAll(t, b, 1)
	const reports = 5
	for range reports {
		require.Eventually(t, isIn(f, redis.Shared), 20*time.Second, time.Millisecond)
		before := p.cut.Load()
		p.cuts.Store(true)
		succeed(b, 500)
		require.Eventually(t, isIn(f, redis.Fallback), 20*time.Second, time.Millisecond)
		p.cuts.Store(false)
		require.Greater(t, p.cut.Load(), before)
	}
	level, err := s.client().HGet(t.Context(), "retrybudget:{target|/service/method}", "level").Int()
	require.NoError(t, err)
	assert.LessOrEqual(t, level, reports*50_000)
	assert.Positive(t, level)
}
