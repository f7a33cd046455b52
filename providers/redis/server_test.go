package redis_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// server is a real Redis on a free port of the loopback interface, with a folder
// of its own.
type server struct {
	t       testing.TB
	binary  string
	address string
	folder  string
	args    []string
	process *exec.Cmd
	ended   chan struct{}
}

// startServer starts a server that ends with the test. Without a binary the test
// is skipped, but not in CI.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{t: t, binary: redisBinary(t), folder: t.TempDir(), args: args}
	for range 10 {
		// Somebody may take the free port before the server does.
		s.address = freeAddress(t)
		if s.start() {
			t.Cleanup(s.kill)
			return s
		}
	}
	require.Fail(t, "redis-server does not start")
	return nil
}

func redisBinary(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		require.Fail(t, "CI must have redis-server: apt-get install redis-server")
	}
	t.Skip("neither redis-server nor valkey-server is installed (apt-get install redis-server); CI runs this test")
	return ""
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// start starts the server at its address and reports whether it answers.
func (s *server) start() bool {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.address)
	require.NoError(s.t, err)
	return s.run(append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", s.folder,
		"--save", "", "--appendonly", "no", "--loglevel", "warning",
	}, s.args...)...)
}

func (s *server) run(args ...string) bool {
	s.t.Helper()
	s.process = exec.Command(s.binary, args...) //nolint:noctx // kill ends it
	dieWithUs(s.process)
	process, ended := s.process, make(chan struct{})
	s.ended = ended
	started := make(chan error)
	go func() {
		// The kernel takes the end of a thread for that of the parent.
		runtime.LockOSThread()
		err := process.Start()
		started <- err
		if err == nil {
			process.Wait() //nolint:errcheck // killed
		}
		close(ended)
	}()
	require.NoError(s.t, <-started)
	return s.answers()
}

// answers waits until the server does, or has ended.
func (s *server) answers() bool {
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		select {
		case <-s.ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
		conn, err := net.DialTimeout("tcp", s.address, time.Second)
		if err != nil {
			continue
		}
		conn.SetDeadline(time.Now().Add(time.Second)) //nolint:errcheck // shows in the read
		conn.Write([]byte("PING\r\n"))                //nolint:errcheck // shows in the read
		buffer := make([]byte, 1)
		n, _ := conn.Read(buffer) // nothing read is no answer
		conn.Close()
		if n == 1 && (buffer[0] == '+' || buffer[0] == '-') { // PONG, or NOAUTH
			return true
		}
	}
	return false
}

// kill ends the server without a chance to save anything.
func (s *server) kill() {
	s.process.Process.Kill() //nolint:errcheck // it may have ended
	<-s.ended
}

// restart starts it again at the same address with what it has on disk.
func (s *server) restart() {
	s.t.Helper()
	require.Eventually(s.t, s.start, time.Minute, 10*time.Millisecond, "the server does not come back at %s", s.address)
}

func (s *server) port() int {
	_, port, err := net.SplitHostPort(s.address)
	require.NoError(s.t, err)
	n, err := strconv.Atoi(port)
	require.NoError(s.t, err)
	return n
}

// client returns a client of the server as a careful user would set it up.
func (s *server) client() *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: s.address, ContextTimeoutEnabled: true})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// background is a context for what must happen at the end of a test.
func background(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
