package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

var errNoRedis = errors.New("neither redis-server nor valkey-server is installed.\n" +
	"Debian, Ubuntu: apt-get install redis-server. Fedora: dnf install valkey. macOS: brew install redis.\n" +
	"Or name one that is there already: -redis host:port")

// findRedis returns the address of a Redis that answers, and what ends it: the
// one of the config, or a new one on a free port that writes nothing to disk.
func findRedis(ctx context.Context, c config) (address string, stop func(), err error) {
	if c.Redis != "" {
		if err := ping(ctx, c.Redis); err != nil {
			return "", nil, fmt.Errorf("-redis %s: %w", c.Redis, err)
		}
		return c.Redis, func() {}, nil
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		binary, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return "", nil, errNoRedis
	}
	for range 5 { // somebody may take the free port first
		if address, stop, err = startRedis(ctx, binary); err == nil || ctx.Err() != nil {
			return address, stop, err
		}
	}
	return "", nil, err
}

func startRedis(ctx context.Context, binary string) (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = listener.Addr().String()
	listener.Close()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", nil, err
	}
	folder, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, binary, //nolint:gosec // found in the user's path
		"--bind", "127.0.0.1", "--port", port, "--dir", folder, "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		os.RemoveAll(folder)
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // killed
		os.RemoveAll(folder)
	}
	if err := ping(ctx, address); err != nil {
		stop()
		return "", nil, fmt.Errorf("%s does not answer: %w", binary, err)
	}
	return address, stop, nil
}

// ping waits until a Redis answers, for some seconds.
func ping(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := goredis.NewClient(&goredis.Options{
		Addr: address, ContextTimeoutEnabled: true,
		MaxRetries: 100, MinRetryBackoff: 10 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond,
	})
	defer client.Close()
	return client.Ping(ctx).Err()
}
