//go:build unix

package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/config"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// A path names the file that it named at the start, wherever the program goes.
func TestWatchBreak_relativePathAfterChdir(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	t.Chdir(dir)
	write(t, "c.yaml", attemptsOf("2"))
	d := &diary{}
	d.start(t, "c.yaml")
	n := d.requireReport(t, 0)

	t.Chdir(other)
	write(t, filepath.Join(dir, "c.yaml"), attemptsOf("3"))

	d.requireReport(t, n)
	d.requireLast(t, 3)
}

// The system reads ".." where a link leads to, not where it is.
func TestWatchBreak_parentOfALink(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), &diary{}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "releases", "v1"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "releases", "common"), 0o700))
	link(t, filepath.Join("releases", "v1"), filepath.Join(dir, "current"))
	file := dir + "/current/../common/c.yaml"
	write(t, file, attemptsOf("2"))
	d.start(t, file)
	d.requireLast(t, 2)

	write(t, file, attemptsOf("3"))
	d.requireLast(t, 3)
}

// A directory further up is replaced, as a deployment does that renames.
func TestWatchBreak_directoryAboveReplaced(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), &diary{}
	for n, attempts := range map[string]string{"app": "2", "next": "3"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, n, "etc"), 0o700))
		write(t, filepath.Join(dir, n, "etc", "c.yaml"), attemptsOf(attempts))
	}
	file := filepath.Join(dir, "app", "etc", "c.yaml")
	d.start(t, file)
	d.requireLast(t, 2)

	require.NoError(t, os.Rename(filepath.Join(dir, "app"), filepath.Join(dir, "old")))
	require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "app")))
	d.requireLast(t, 3)
}

// What can never be read to its end does not hold Watch up.
func TestWatchBreak_pipe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- config.Watch(ctx, file, &diary{}, func(error) { cancel() }) }()
	defer cancel()
	select {
	case err := <-done:
		assert.ErrorIs(t, err, context.Canceled)
	case <-time.After(2 * time.Second):
		t.Error("Watch neither reports the pipe nor ends with its context")
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		require.NoError(t, err)
		cancel()
		require.NoError(t, f.Close())
		assert.Error(t, <-done)
	}
}

// After its context ended, Watch applies nothing.
func TestWatchBreak_endedContext(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, attemptsOf("2"))
	applied := 0
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d := &diary{}
		assert.ErrorIs(t, config.Watch(ctx, file, d, d.report), context.Canceled)
		applied += len(d.attempts)
	}
	assert.Zero(t, applied)
}

// Paths that no file is found under are reported, and found once it is there.
func TestWatchBreak_oddPaths(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, file string)
		says    string
	}{
		"directory":     {func(t *testing.T, file string) { require.NoError(t, os.Mkdir(file, 0o700)) }, "not a regular file"},
		"dangling link": {func(t *testing.T, file string) { link(t, "nowhere/at/all", file) }, "no such file"},
		"loop":          {func(t *testing.T, file string) { link(t, filepath.Base(file), file) }, "too many levels"},
		"long loop": {func(t *testing.T, file string) {
			link(t, file+"2/x", file)
			link(t, file+"/y", file+"2")
		}, "too many levels"},
		"below a file": {func(t *testing.T, file string) {}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, d := filepath.Join(t.TempDir(), "c.yaml"), &diary{}
			test.prepare(t, file)
			d.start(t, file)
			d.requireReport(t, 0, test.says)
			require.NoError(t, os.RemoveAll(file))
			write(t, file, attemptsOf("3"))
			d.requireLast(t, 3)
		})
	}
}

// A thousand files in a row: what is applied is whole, and the last one is.
func TestWatchBreak_manyReplacements(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), &diary{}
	file := filepath.Join(dir, "c.yaml")
	write(t, file, attemptsOf("2"))
	for range 2 {
		d.start(t, file)
	}
	for i := range 1000 {
		write(t, file+"_", attemptsOf(fmt.Sprint(i+3)))
		require.NoError(t, os.Rename(file+"_", file))
	}
	d.requireLast(t, 1002)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, err := range d.reports {
		assert.NoError(t, err)
	}
}

// What the caller's functions do to Watch.
func TestWatchBreak_callersFunctions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, attemptsOf("2"))
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)

	assert.PanicsWithValue(t, "report", func() {
		_ = config.Watch(ctx, file, &diary{}, func(error) { panic("report") })
	})
	assert.PanicsWithValue(t, "update", func() {
		_ = config.Watch(ctx, file, updaterFunc(func(*retrybudgetv1.Config) error { panic("update") }), func(error) {})
	})
	over := errors.New("over")
	assert.Equal(t, over, config.Watch(ctx, file, updaterFunc(func(*retrybudgetv1.Config) error { cancel(over); return nil }), func(error) {}))
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, soon, time.Millisecond)
}

type updaterFunc func(*retrybudgetv1.Config) error

func (f updaterFunc) Update(cfg *retrybudgetv1.Config) error { return f(cfg) }

// A report that takes its time does not lose the last change.
func TestWatchBreak_slowReport(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, attemptsOf("2"))
	r, err := retrybudget.New()
	require.NoError(t, err)
	var last atomic.Uint32
	entered, leave := make(chan struct{}), make(chan struct{})
	once := true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- config.Watch(ctx, file, updaterFunc(func(cfg *retrybudgetv1.Config) error {
			last.Store(cfg.GetDefaultPolicy().GetMaxAttempts())
			return r.Update(cfg)
		}), func(error) {
			if once {
				once = false
				close(entered)
				<-leave
			}
		})
	}()
	<-entered
	for i := range 100 {
		write(t, file, attemptsOf(fmt.Sprint(i+3)))
	}
	close(leave)
	require.Eventually(t, func() bool { return last.Load() == 102 }, soon, time.Millisecond)
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
}

// A file that is too large to be a configuration is not read into memory.
func TestWatchBreak_tooLarge(t *testing.T) {
	t.Parallel()
	file, d := filepath.Join(t.TempDir(), "c.yaml"), &diary{}
	write(t, file, attemptsOf("2"))
	d.start(t, file)
	n := d.requireReport(t, 0)
	write(t, file, strings.Repeat("GET /: 200\n", 100_000))
	n = d.requireReport(t, n, "its 1100000 bytes are more than 1048576")
	write(t, file, attemptsOf("3"))
	d.requireReport(t, n)
	d.requireLast(t, 3)
}
