package prometheus_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outage is what the program examples/storm plays: calls of which some fail, and a
// while in which all do. It is long enough for an alert that waits for five seconds,
// also on a busy machine. Several clients for each way to retry, whose tokens are added
// up.
var outage = []string{
	"-quick", "-scenario", "outage", "-strategies", "retrybudget,retrybudget-adaptive,retrybudget-throttle",
	"-clients", "5", "-errors", "5", "-fault", "20s", "-tail", "5s", "-out", "", "-serve", "127.0.0.1:0",
}

// storm is that program.
type storm struct{ process *process }

// startStorm builds the program and starts it.
func startStorm(t *testing.T) storm {
	t.Helper()
	path := filepath.Join(t.TempDir(), "storm")
	build := exec.CommandContext(t.Context(), program(t, "go", "Go"), "-C", "../../examples", "build", "-o", path, "./storm")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return storm{launch(t, os.Interrupt, path, outage...)}
}

// address is where its metrics are.
func (s storm) address(t *testing.T) string {
	t.Helper()
	page, err := url.Parse(s.process.await(t, `live page: (\S+)\n`, time.Minute))
	require.NoError(t, err)
	return page.Host
}

// awaitEnd waits until the outage and what follows it are over. The metrics stay up.
func (s storm) awaitEnd(t *testing.T) {
	t.Helper()
	s.process.await(t, "stays up until Ctrl-C\n", 2*time.Minute)
}
