package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/config"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// These tests watch real files, so time is real. They wait for what must happen;
// what must not happen is shown by something later that did.

const soon = 10 * time.Second

// diary is an Updater that notes the numbers of attempts it is given.
type diary struct {
	mu       sync.Mutex
	attempts []uint32
	reports  []error
	refuse   error
}

func (d *diary) Update(cfg *retrybudgetv1.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return d.refuse
	}
	d.attempts = append(d.attempts, cfg.GetDefaultPolicy().GetMaxAttempts())
	return nil
}

func (d *diary) report(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, err)
}

// requireLast waits until n attempts are what was applied last.
func (d *diary) requireLast(t *testing.T, n uint32) {
	t.Helper()
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.attempts) > 0 && d.attempts[len(d.attempts)-1] == n
	}, soon, time.Millisecond)
}

// requireReport waits for a report with all of texts in it, nil for none, after
// the first n reports. It returns how many there are then.
func (d *diary) requireReport(t *testing.T, n int, texts ...string) int {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.reports) <= n {
			return false
		}
		err = d.reports[n]
		n++
		return true
	}, soon, time.Millisecond)
	if len(texts) == 0 {
		require.NoError(t, err)
	}
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
	return n
}

// start watches a file until the test ends.
func (d *diary) start(t *testing.T, file string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // it must end before the clean-up
	done := make(chan error, 1)
	go func() { done <- config.Watch(ctx, file, d, d.report) }()
	t.Cleanup(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
}

func attemptsOf(n string) string { return "default_policy: {max_attempts: " + n + "}\n" }

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func link(t *testing.T, target, name string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, name))
}

// replace puts a link in the place of another, at once.
func replace(t *testing.T, target, name string) {
	t.Helper()
	link(t, target, name+"_tmp")
	require.NoError(t, os.Rename(name+"_tmp", name))
}

// Ways in which a file gets another content.
func TestWatch_changes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file    string
		prepare func(t *testing.T, dir string)
		change  func(t *testing.T, dir string)
	}{
		"written in place": {
			"c.yaml",
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "c.yaml"), attemptsOf("2")) },
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "c.yaml"), attemptsOf("3")) },
		},
		"renamed over it": {
			"c.yaml",
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "c.yaml"), attemptsOf("2")) },
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, ".c.swp"), attemptsOf("3"))
				require.NoError(t, os.Rename(filepath.Join(dir, ".c.swp"), filepath.Join(dir, "c.yaml")))
			},
		},
		"moved away and written anew": {
			"c.yaml",
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "c.yaml"), attemptsOf("2")) },
			func(t *testing.T, dir string) {
				require.NoError(t, os.Rename(filepath.Join(dir, "c.yaml"), filepath.Join(dir, "c.yaml~")))
				write(t, filepath.Join(dir, "c.yaml"), attemptsOf("3"))
			},
		},
		"mounted config map": {
			"c.yaml",
			func(t *testing.T, dir string) {
				require.NoError(t, os.Mkdir(filepath.Join(dir, "..2026_1"), 0o700))
				write(t, filepath.Join(dir, "..2026_1", "c.yaml"), attemptsOf("2"))
				link(t, "..2026_1", filepath.Join(dir, "..data"))
				link(t, filepath.Join("..data", "c.yaml"), filepath.Join(dir, "c.yaml"))
			},
			func(t *testing.T, dir string) {
				require.NoError(t, os.Mkdir(filepath.Join(dir, "..2026_2"), 0o700))
				write(t, filepath.Join(dir, "..2026_2", "c.yaml"), attemptsOf("3"))
				replace(t, "..2026_2", filepath.Join(dir, "..data"))
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "..2026_1")))
			},
		},
		"link to a file elsewhere": {
			"c.yaml",
			func(t *testing.T, dir string) {
				require.NoError(t, os.Mkdir(filepath.Join(dir, "other"), 0o700))
				write(t, filepath.Join(dir, "other", "x.yaml"), attemptsOf("2"))
				link(t, filepath.Join(dir, "other", "x.yaml"), filepath.Join(dir, "c.yaml"))
			},
			func(t *testing.T, dir string) { write(t, filepath.Join(dir, "other", "x.yaml"), attemptsOf("3")) },
		},
		"release directory switched": {
			"current/etc/c.yaml",
			func(t *testing.T, dir string) {
				for n, attempts := range map[string]string{"v1": "2", "v2": "3"} {
					require.NoError(t, os.MkdirAll(filepath.Join(dir, n, "etc"), 0o700))
					write(t, filepath.Join(dir, n, "etc", "c.yaml"), attemptsOf(attempts))
				}
				link(t, "v1", filepath.Join(dir, "current"))
			},
			func(t *testing.T, dir string) { replace(t, "v2", filepath.Join(dir, "current")) },
		},
		"directory made later": {
			"etc/deep/c.yaml",
			func(*testing.T, string) {},
			func(t *testing.T, dir string) {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "etc", "deep"), 0o700))
				write(t, filepath.Join(dir, "etc", "deep", "c.yaml"), attemptsOf("3"))
			},
		},
		"directory replaced": {
			"etc/c.yaml",
			func(t *testing.T, dir string) {
				require.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))
				write(t, filepath.Join(dir, "etc", "c.yaml"), attemptsOf("2"))
			},
			func(t *testing.T, dir string) {
				require.NoError(t, os.Rename(filepath.Join(dir, "etc"), filepath.Join(dir, "old")))
				require.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))
				write(t, filepath.Join(dir, "etc", "c.yaml"), attemptsOf("3"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, d := t.TempDir(), &diary{}
			file := filepath.Join(dir, filepath.FromSlash(test.file))
			test.prepare(t, dir)
			d.start(t, file)
			if _, err := os.Stat(file); err == nil {
				d.requireLast(t, 2)
			} else {
				d.requireReport(t, 0, "no such file")
			}

			test.change(t, dir)
			d.requireLast(t, 3)

			write(t, file, attemptsOf("4"))
			d.requireLast(t, 4)
		})
	}
}

// A bad file changes nothing and is reported once; what comes back is applied.
func TestWatch_keepsTheLastGoodConfig(t *testing.T) {
	t.Parallel()
	file, d := filepath.Join(t.TempDir(), "c.yaml"), &diary{}
	write(t, file, attemptsOf("2"))
	d.start(t, file)
	n := d.requireReport(t, 0)

	write(t, file, "mode: off\n"+attemptsOf("-1"))
	n = d.requireReport(t, n, file+":2: default_policy.max_attempts", "-1")
	write(t, file, "mode: [")
	n = d.requireReport(t, n, "not YAML")
	write(t, file, "")
	n = d.requireReport(t, n, "is empty")
	write(t, file, "# still empty")
	write(t, file, attemptsOf("3"))
	n = d.requireReport(t, n)
	require.NoError(t, os.Remove(file))
	n = d.requireReport(t, n, "no such file")
	write(t, file, attemptsOf("3"))
	d.requireReport(t, n)

	assert.Equal(t, []uint32{2, 3, 3}, d.attempts)
}

// What the Updater refuses is reported with its line.
func TestWatch_refusedByTheRetrier(t *testing.T) {
	t.Parallel()
	file, d := filepath.Join(t.TempDir(), "c.yaml"), &diary{}
	r, err := retrybudget.New()
	require.NoError(t, err)
	write(t, file, "mode: observe\nmethods:\n- names: [/no.Such/Method]\n  policy: {}\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- config.Watch(ctx, file, r, d.report) }()

	n := d.requireReport(t, 0, file+":3: methods[0].names[0]", "/no.Such/Method")
	write(t, file, "mode: observe")
	d.requireReport(t, n)

	over := errors.New("over")
	cancel(over)
	assert.Equal(t, over, <-done)
}

func TestWatch_badArguments(t *testing.T) {
	t.Parallel()
	assert.Error(t, config.Watch(t.Context(), "c.yaml", nil, func(error) {}))
	assert.Error(t, config.Watch(t.Context(), "c.yaml", &diary{}, nil))
}

// Not parallel: other tests' goroutines would be counted too.
func TestWatch_leavesNothingBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, attemptsOf("2"))
	before := runtime.NumGoroutine()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		err := config.Watch(ctx, file, &diary{}, func(err error) {
			assert.NoError(t, err)
			cancel()
		})
		require.ErrorIs(t, err, context.Canceled)
	}
	for end := time.Now().Add(soon); runtime.NumGoroutine() > before && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
}
