package config_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/config"
)

// The README shows how to load a file. This one is the README's own.
func ExampleLoad() {
	leave := inFolderOf("retrybudget.yaml", blockOf("../README.md", "yaml"))

	cfg, err := config.Load("retrybudget.yaml") // go get github.com/retrybudget/retrybudget/config
	if err != nil {
		log.Fatal(err) // retrybudget: retrybudget.yaml:2: default_policy.max_atempts is unknown: …
	}
	r, err := retrybudget.New(retrybudget.WithConfig(cfg))
	if err != nil {
		log.Fatal(err)
	}
	leave()
	fmt.Println("attempts at GetStock:", attemptsOfFailure(r, getStock))
	fmt.Println("attempts at ReserveStock:", attemptsOfFailure(r, reserveStock))
	// Output:
	// attempts at GetStock: 4
	// attempts at ReserveStock: 1
}

// A program that runs takes up a changed file by itself. The README shows how.
func ExampleWatch() {
	leave := inFolderOf("retrybudget.yaml", "default_policy: {max_attempts: 2}")
	logged := make(lines)
	logger := slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	ctx, stop := context.WithCancel(context.Background()) // the program's
	cfg, err := config.Load("retrybudget.yaml")
	if err != nil {
		log.Fatal(err)
	}
	r, err := retrybudget.New(retrybudget.WithConfig(cfg))
	if err != nil {
		log.Fatal(err)
	}

	go func() {
		err := config.Watch(ctx, "retrybudget.yaml", r, func(err error) {
			logger.Info("configuration", "error", err) // nil: in use; else what was there stays
		})
		logger.Info("watch ended", "error", err) // with ctx
	}()

	fmt.Print(<-logged)
	fmt.Println("attempts:", attemptsOfFailure(r, getStock))
	for _, text := range []string{"default_policy: {max_attempts: 0}", "default_policy: {max_attempts: 4}"} {
		if err := os.WriteFile("retrybudget.yaml", []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
		fmt.Print(<-logged)
	}
	fmt.Println("attempts:", attemptsOfFailure(r, getStock))
	stop()
	fmt.Print(<-logged)
	leave()
	// Output:
	// level=INFO msg=configuration error=<nil>
	// attempts: 2
	// level=INFO msg=configuration error="retrybudget: retrybudget.yaml:1: default_policy.max_attempts 0 is not in 1..2147483647: leave it out for the default"
	// level=INFO msg=configuration error=<nil>
	// attempts: 4
	// level=INFO msg="watch ended" error="context canceled"
}

// lines gets what is written, a line at a time.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// What is wrong with a file is said at once, with line and path.
func ExampleParse() {
	_, err := config.Parse([]byte(`
default_policy:
  max_atempts: 4
  timeout: 500ms
methods:
  - names: [/pkg.Service/Method]
`))
	fmt.Println(err)
	// Output:
	// retrybudget: config:3: default_policy.max_atempts is unknown: known here are max_attempts, exponential_backoff, constant_backoff, retryable_codes, idempotent_codes, idempotency, idempotency_key, per_attempt_timeout, timeout
	// retrybudget: config:4: default_policy.timeout "500ms" is not a duration in seconds: write "0.500s"
}

// inFolderOf makes a folder with one file the current one, until the function
// that it returns is called.
func inFolderOf(name, text string) (leave func()) {
	before, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		log.Fatal(err)
	}
	return func() {
		if err := os.Chdir(before); err != nil {
			log.Fatal(err)
		}
		os.RemoveAll(dir)
	}
}
