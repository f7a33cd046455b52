// Package config reads a [retrybudgetv1.Config] from a YAML or JSON file:
//
//	cfg, err := config.Load("retrybudget.yaml")
//	…
//	r, err := retrybudget.New(retrybudget.WithConfig(cfg))
//
// A file is a message of that type, in protobuf's JSON mapping or the same as
// YAML. Keys are the names of the fields, in either spelling (max_attempts or
// maxAttempts); durations are seconds ("0.1s"); enum values may leave out their
// prefix and be in lower case (unavailable for CODE_UNAVAILABLE).
//
// Nothing in a file is ignored. An unknown key, one that occurs twice, a value
// that is null or an empty list, a second document: each is an error with line
// and path, and so is a value that retrybudget.New would refuse. YAML's anchors
// and aliases work, its merge keys (<<) do not.
//
// [Watch] applies a file that changes to a Retrier that runs.
//
// The package is a module of its own, so that only programs that read files
// depend on a YAML library.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/retrybudget/retrybudget"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// Error is something in a file that cannot be used.
type Error struct {
	// File is the name that was given to [Load]; empty after [Parse].
	File string
	// Line is the line in the text, counted from 1; 0 when the parser did not
	// say.
	Line int
	// Path is where it is, in the names of the proto, such as
	// "methods[2].policy.max_attempts"; empty for the file as a whole.
	Path string
	// Problem says what is wrong, with the value.
	Problem string
}

// Error returns all of it.
func (e *Error) Error() string {
	place := "config"
	if e.File != "" {
		place = e.File
	}
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, e.Line)
	}
	if e.Path != "" {
		place += ": " + e.Path
	} else {
		place += ":"
	}
	return fmt.Sprintf("retrybudget: %s %s", place, e.Problem)
}

// Load reads a file. The error is that of reading it, or joins all that is wrong
// with it, each an [Error], in the order of the lines. More than a hundred are
// counted in one that comes last.
func Load(file string) (*retrybudgetv1.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("retrybudget: %w", err)
	}
	return parse(file, data)
}

// Parse reads a text. See [Load] for the error.
func Parse(data []byte) (*retrybudgetv1.Config, error) { return parse("", data) }

func parse(file string, data []byte) (*retrybudgetv1.Config, error) {
	r := &reader{file: file, lines: map[string]int{}}
	cfg := r.config(data)
	if err := r.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// config reads a text. What is wrong with it is in r afterwards.
func (r *reader) config(data []byte) *retrybudgetv1.Config {
	cfg := &retrybudgetv1.Config{}
	if root := r.document(data); root != nil {
		r.lines[""] = root.Line
		r.message("", root, cfg.ProtoReflect())
		if len(r.errs) == 0 {
			r.check(retrybudget.CheckConfig(cfg))
		}
	}
	return cfg
}

// err returns all that was found, in the order of the lines, or nil.
func (r *reader) err() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	var all []error
	for _, e := range r.errs {
		all = append(all, e)
	}
	if r.left > 0 {
		r.more.Problem = fmt.Sprintf("has %d more problems, from here on", r.left)
		all = append(all, r.more)
	}
	return errors.Join(all...)
}

// check adds the library's errors, with the lines of the values that they name.
func (r *reader) check(err error) {
	if err == nil {
		return
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		for _, err := range many.Unwrap() {
			r.check(err)
		}
		return
	}
	var of *retrybudget.ConfigError
	if !errors.As(err, &of) {
		r.fail("", 0, "%v", err)
		return
	}
	r.fail(of.Path, r.lineOf(of.Path), "%s", of.Problem)
}
