//go:build unix

package redis_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/providers/redis"
)

// childVariable makes the test binary one process of a fleet.
const childVariable = "RETRYBUDGET_TEST_FLEET_PROCESS"

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{}) // of servers that are away
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(runChild(text))
	}
	os.Exit(m.Run())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// childConfig is what a process is told.
type childConfig struct {
	Address  string
	Replicas int
	Seed     uint64
}

// What a process tells: a byte, and the time in nanoseconds, which on one machine
// is the same for all processes. Each is written before the process goes on, so
// that a killed one has told everything.
const (
	isUp       = 'u'
	didSucceed = 's'
	didRetry   = 'r'
	fellBack   = 'f'
	isShared   = 'b'
	didClose   = 'c'
)

// All processes have health at the same time, which fills the bucket; then so
// long a rest that no success before it is reported after it; then a storm.
const (
	health = time.Second
	rest   = 1400 * time.Millisecond
	storm  = 400 * time.Millisecond
)

func tell(what byte, at time.Time) {
	record := binary.LittleEndian.AppendUint64([]byte{what}, uint64(at.UnixNano()))
	if _, err := os.Stdout.Write(record); err != nil {
		os.Exit(1) // the test is gone
	}
}

// runChild calls a dependency that is well or not, until its input ends.
func runChild(text string) int {
	var cfg childConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return 2
	}
	client := goredis.NewClient(&goredis.Options{Addr: cfg.Address, ContextTimeoutEnabled: true})
	fleet, err := redis.New(client, redis.Config{
		Replicas: cfg.Replicas, MaxBackoff: 500 * time.Millisecond, Timeout: 250 * time.Millisecond,
		OnState: func(s redis.State, _ error) {
			tell(map[redis.State]byte{redis.Fallback: fellBack, redis.Shared: isShared}[s], time.Now())
		},
	})
	if err != nil {
		return 2
	}
	budget, err := fleet.Budget("target", "/service/method")
	if err != nil {
		return 2
	}
	end := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // the end is what matters
		close(end)
	}()
	random := rand.New(rand.NewPCG(cfg.Seed, 0))
	ticker := time.NewTicker(time.Millisecond)
	tell(isUp, time.Now())
	for called := time.Now(); ; {
		select {
		case <-end:
			return closeChild(fleet)
		case <-ticker.C:
		}
		now := time.Now()
		phase := time.Duration(now.UnixNano()) % (health + rest + storm)
		// One call a millisecond, also those that a busy machine made late.
		for ; called.Before(now); called = called.Add(time.Millisecond) {
			if phase < health && random.IntN(4) == 0 || phase > health+rest && random.IntN(200) == 0 {
				tell(didSucceed, now)
				budget.RecordSuccess()
			}
		}
		for phase > health+rest && budget.TryTake(retrybudget.Cause{}) {
			tell(didRetry, now)
		}
	}
}

func closeChild(fleet *redis.Fleet) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if fleet.Close(ctx) == nil {
		tell(didClose, time.Now())
	}
	return 0
}

// child is a process seen from the test.
type child struct {
	cmd   *exec.Cmd
	input io.Closer
	ended chan struct{}

	mu   sync.Mutex
	told []told
}

type told struct {
	what byte
	at   time.Time
}

func startChild(t *testing.T, cfg childConfig) *child {
	t.Helper()
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{cmd: exec.Command(self), ended: make(chan struct{})} //nolint:noctx // kill ends it
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	dieWithUs(c.cmd)
	c.input, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	output, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // see server.start
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.listen(output)
			c.cmd.Wait() //nolint:errcheck // killed, perhaps
		}
		close(c.ended)
	}()
	require.NoError(t, <-started)
	t.Cleanup(c.kill)
	return c
}

func (c *child) listen(output io.Reader) {
	var record [9]byte
	for {
		if _, err := io.ReadFull(output, record[:]); err != nil {
			return
		}
		c.mu.Lock()
		c.told = append(c.told, told{record[0], time.Unix(0, int64(binary.LittleEndian.Uint64(record[1:])))})
		c.mu.Unlock()
	}
}

func (c *child) kill() {
	c.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-c.ended
}

// finish lets a process end by itself.
func (c *child) finish() {
	c.input.Close()
	<-c.ended
}

// last returns what of some things a process told last, 0 for nothing.
func (c *child) last(of ...byte) byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range slices.Backward(c.told) {
		if slices.Contains(of, e.what) {
			return e.what
		}
	}
	return 0
}
