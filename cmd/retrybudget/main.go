// Retrybudget checks, converts and explains the configuration of retries before
// it ships: files of the retrybudget library and gRPC service configs.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Exit codes.
const (
	exitFine     = 0
	exitProblems = 1 // the files have problems
	exitUsage    = 2 // the command could not do its work: a bad argument, a file that cannot be read
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is the whole program. What was asked for goes to stdout, in one piece, and
// what kept the command from its work to stderr.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var out, errs bytes.Buffer
	code := dispatch(args, stdin, &out, &errs)
	if out.Len() > 0 {
		if _, err := stdout.Write(out.Bytes()); err != nil {
			fmt.Fprintf(&errs, "retrybudget: standard output: %v\n", err)
			code = exitUsage
		}
	}
	if _, err := stderr.Write(errs.Bytes()); err != nil {
		return exitUsage // nobody is left to tell
	}
	return code
}

// command is one of the things the program can do.
type command struct {
	name, summary string
	run           func(args []string, in io.Reader, out, errs io.Writer) (int, error)
}

func commands() []command {
	return []command{
		{"check", "find what is wrong or dangerous in configuration files", check},
		{"convert", "turn a gRPC service config into a configuration, or back", convert},
		{"explain", "say how one method is retried, and which file says so", explain},
		{"plan", "count what retries multiply to, with and without budgets", plan},
	}
}

// usageError is a bad argument.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func badUsage(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

func dispatch(args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errs, overview())
		return exitUsage
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	switch {
	case i >= 0:
	case slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]):
		fmt.Fprint(out, overview())
		return exitFine
	default:
		var names []string
		for _, c := range all {
			names = append(names, c.name)
		}
		fmt.Fprintf(errs, "retrybudget: %q is not a command: known are %s\n", args[0], strings.Join(names, ", "))
		return exitUsage
	}
	code, err := all[i].run(args[1:], in, out, errs)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return code
	}
	fmt.Fprintf(errs, "retrybudget %s: %v\n", args[0], err)
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(errs, "retrybudget %s: -h shows how it is used\n", args[0])
	}
	return exitUsage
}

func overview() string {
	var b strings.Builder
	b.WriteString(`retrybudget looks at the configuration of retries before it ships: files of the
retrybudget library (YAML or JSON) and gRPC service configs (JSON).

usage: retrybudget COMMAND [flags] [arguments]

`)
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-8s  %s\n", c.name, c.summary)
	}
	b.WriteString(`
examples:
  retrybudget check retrybudget.yaml
  retrybudget convert service-config.json > retrybudget.yaml
  retrybudget explain /shop.v1.Cart/AddItem retrybudget.yaml
  retrybudget plan -layers 3,3,3 -budget 0.1

retrybudget COMMAND -h explains the command. Exit status: 0 fine, 1 the files have
problems, 2 the command could not do its work.
`)
	return b.String()
}
