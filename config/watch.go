package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// Updater takes configurations while it runs, as a *retrybudget.Retrier does.
type Updater interface {
	// Update applies all of a configuration, or returns an error and applies none.
	Update(*retrybudgetv1.Config) error
}

const (
	// quiet is how long nothing must happen before a file that changed is read:
	// whoever writes it may not be done.
	quiet = 100 * time.Millisecond
	// patience is how long at most that is waited for, as other files change too.
	patience = 2 * time.Second
	// pollInterval is how often the file is looked at anyway: network file
	// systems do not tell.
	pollInterval = time.Minute
)

// Watch gives the file to the Updater now and, until ctx ends, whenever its content
// has changed. It runs in the caller's goroutine and leaves none behind:
//
//	go config.Watch(ctx, "retrybudget.yaml", r, report)
//
// Editors that write a new file and rename it are understood, and so are symbolic
// links on the way to the file that are changed, as those of mounted config maps
// are. A change is applied a tenth of a second after the last write; where the
// system does not tell of changes, within a minute.
//
// A file that cannot be read or used, or has more than 1 MiB, changes nothing: what
// was there before stays. report is told why, once for the same error, and is
// called with nil whenever the file was applied; it must not be nil. Errors in the
// file are those of [Load], and those of Update with their lines.
//
// What the file says under server is checked but not applied: server interceptors
// are made with theirs, see retrybudget.WithServerConfig.
//
// Watch returns the cause that ctx ended with, or at once an error if the system
// cannot watch files at all.
func Watch(ctx context.Context, file string, to Updater, report func(error)) error {
	if to == nil || report == nil {
		return errors.New("retrybudget: config.Watch needs an Updater and a report function")
	}
	path, err := absolute(file)
	if err != nil {
		return fmt.Errorf("retrybudget: cannot watch %s: %w", file, err)
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("retrybudget: cannot watch %s: %w", file, err)
	}
	defer notify.Close()
	w := &watch{file: file, path: path, to: to, report: report, notify: notify, watched: map[string]os.FileInfo{}}
	return w.run(ctx)
}

// watch is one Watch.
type watch struct {
	file   string // as it was given
	path   string // absolute
	to     Updater
	report func(error)
	notify *fsnotify.Watcher

	way     []string               // to the file, see wayTo
	watched map[string]os.FileInfo // the folders that are watched

	seen []byte // the content when it was last read, nil while it cannot be
	// The errors last reported, "" when there was none since.
	watching, content string
}

func (w *watch) run(ctx context.Context) error {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()
	var since time.Time // the first change that was not looked at, zero for none
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-w.notify.Events:
			if !slices.Contains(w.way, filepath.Clean(event.Name)) {
				continue
			}
			now := time.Now()
			if since.IsZero() {
				since = now
			}
			settled.Reset(min(quiet, time.Until(since.Add(patience))))
		case err := <-w.notify.Errors: // events may be lost, so look
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.complain(&w.watching, fmt.Errorf("retrybudget: watching %s: %w", w.file, err))
			}
			settled.Reset(quiet)
		case <-settled.C:
			since = time.Time{}
			w.look(ctx)
		case <-poll.C:
			w.look(ctx)
		}
	}
}

// look reads the file and applies it if it is not what it was.
func (w *watch) look(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	if err := w.follow(); err != nil {
		w.complain(&w.watching, fmt.Errorf("retrybudget: cannot watch %s: %w", w.file, err))
	} else {
		w.watching = ""
	}
	data, err := w.read()
	if err != nil {
		w.complain(&w.content, fmt.Errorf("retrybudget: cannot read %s: %w", w.file, err))
		w.seen = nil
		return
	}
	if w.seen != nil && bytes.Equal(data, w.seen) {
		return
	}
	w.seen = append([]byte{}, data...)
	r := &reader{file: w.file, lines: map[string]int{}}
	if cfg := r.config(data); len(r.errs) == 0 {
		r.check(w.to.Update(cfg))
	}
	if err := r.err(); err != nil {
		w.complain(&w.content, err)
		return
	}
	w.content = ""
	w.report(nil)
}

// mostBytes is the largest file that is read, as large as a config map may be. The
// tree of one takes a hundred times as much, in a process that has other work.
const mostBytes = 1 << 20

// read reads the file, if it is one: a pipe could make it wait for ever.
func (w *watch) read() ([]byte, error) {
	switch info, err := os.Stat(w.path); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > mostBytes:
		return nil, fmt.Errorf("its %d bytes are more than %d", info.Size(), mostBytes)
	}
	return os.ReadFile(w.path)
}

// complain reports an error, unless it is the last one of its kind.
func (w *watch) complain(last *string, err error) {
	if text := err.Error(); text != *last {
		*last = text
		w.report(err)
	}
}
