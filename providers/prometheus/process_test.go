package prometheus_test

import (
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// process is a program that runs until the test ends.
type process struct {
	ended chan struct{} // closed when it has

	mu   sync.Mutex
	said []byte
}

// launch starts a program. The signal, which it gets when the test ends, must end
// it within ten seconds, and well.
func launch(t *testing.T, end os.Signal, path string, args ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	p := &process{ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	cmd.Cancel = func() error { return cmd.Process.Signal(end) }
	cmd.WaitDelay = 10 * time.Second
	endWithParent(cmd)
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // always an error if t.Context is what ended it
		close(p.ended)
	}()
	t.Cleanup(func() {
		<-p.ended
		if !t.Failed() { // else it may have been cut short, and says so
			assert.Zero(t, cmd.ProcessState.ExitCode(), "%s: %v", path, cmd.ProcessState)
		}
		if t.Failed() {
			t.Logf("%s\n%s", path, p.text())
		}
	})
	return p
}

// Write keeps what the program says.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, text...)
	return len(text), nil
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said)
}

// await waits until the program has said what the pattern matches, and returns
// what its last group does.
func (p *process) await(t *testing.T, pattern string, limit time.Duration) string {
	t.Helper()
	var found []string
	require.Eventually(t, func() bool {
		select {
		case <-p.ended:
			return true
		default:
			found = regexp.MustCompile(pattern).FindStringSubmatch(p.text())
			return found != nil
		}
	}, limit, 50*time.Millisecond, pattern)
	require.NotNil(t, found, "ended before %s", pattern)
	return found[len(found)-1]
}
