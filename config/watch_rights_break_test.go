//go:build linux

package config_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/config"
)

// startAs watches a file with the rights of somebody else, until the test ends.
func (d *diary) startAs(t *testing.T, uid int, file string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else; CI runs this test as root")
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // it must end before the clean-up
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with its rights
		if err := syscall.Setfsuid(uid); err != nil {
			done <- err
			return
		}
		done <- config.Watch(ctx, file, d, d.report)
	}()
	t.Cleanup(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
}

const nobody = 65534

// openDir returns a new folder that everybody may read.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, dir := range []string{filepath.Dir(dir), dir} {
		require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // see above
	}
	return dir
}

// A folder on the way that may be passed but not read is no reason to complain.
func TestWatchBreak_folderThatMayOnlyBePassed(t *testing.T) {
	t.Parallel()
	dir, d := openDir(t), &diary{}
	etc := filepath.Join(dir, "closed", "etc")
	require.NoError(t, os.MkdirAll(etc, 0o755))                       //nolint:gosec // for everybody
	require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0o711)) //nolint:gosec // as above
	file := filepath.Join(etc, "c.yaml")
	write(t, file, attemptsOf("2"))
	require.NoError(t, os.Chmod(file, 0o644)) //nolint:gosec // as above
	d.startAs(t, nobody, file)
	n := d.requireReport(t, 0)
	write(t, file, attemptsOf("3"))
	d.requireReport(t, n)
	d.requireLast(t, 3)
}

// A file that may not be read is applied once it may.
func TestWatchBreak_rightsGiven(t *testing.T) {
	t.Parallel()
	file, d := filepath.Join(openDir(t), "c.yaml"), &diary{}
	write(t, file, attemptsOf("2"))
	d.startAs(t, nobody, file)
	n := d.requireReport(t, 0, "permission denied")
	require.NoError(t, os.Chmod(file, 0o644)) //nolint:gosec // for everybody
	d.requireReport(t, n)
	d.requireLast(t, 2)
}

// A file in the root folder, where containers often have theirs.
func TestWatchBreak_rootFolder(t *testing.T) {
	f, err := os.CreateTemp("/", "retrybudget*.yaml")
	if err != nil {
		t.Skip("the root folder is closed (CI runs this test as root): ", err)
	}
	require.NoError(t, f.Close())
	t.Cleanup(func() { assert.NoError(t, os.Remove(f.Name())) })
	write(t, f.Name(), attemptsOf("2"))
	d := &diary{}
	d.start(t, f.Name())
	d.requireLast(t, 2)
	write(t, f.Name(), attemptsOf("3"))
	d.requireLast(t, 3)
}

// A folder that cannot be watched is said once, not again beside each other error.
func TestWatchBreak_sameErrorOnce(t *testing.T) {
	t.Parallel()
	dir, d := openDir(t), &diary{}
	closed := filepath.Join(dir, "closed")
	require.NoError(t, os.Mkdir(closed, 0o711)) //nolint:gosec // for everybody
	file := filepath.Join(closed, "c.yaml")
	write(t, file, "bad0: 1")
	require.NoError(t, os.Chmod(file, 0o644)) //nolint:gosec // as above
	d.startAs(t, nobody, file)
	n := d.requireReport(t, 0, "cannot watch")
	n = d.requireReport(t, n, "bad0")
	for _, bad := range []string{"bad1", "bad2", "bad3"} {
		write(t, file, bad+": 1")
		require.NoError(t, os.Chmod(closed, 0o711)) //nolint:gosec // its own folder tells
		n = d.requireReport(t, n, bad)
	}
}
