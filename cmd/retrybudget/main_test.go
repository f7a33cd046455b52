package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A bad argument is said in one line that names it, and the exit code is 2.
func TestRun_badArguments(t *testing.T) {
	t.Parallel()
	good := "testdata/retrybudget.yaml"
	notProtos := writeFile(t, "protos.binpb", "text")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"chek", good}, `"chek" is not a command: known are check, convert, explain, plan`},
		{[]string{"check"}, "no FILE is given"},
		{[]string{"check", "-wat", good}, "flag provided but not defined: -wat"},
		{[]string{"check", "nosuch.yaml"}, "open nosuch.yaml: no such file or directory"},
		{[]string{"check", "testdata"}, "testdata: is a directory"},
		{[]string{"check", "-layers", "0", good}, "-layers 0 is not at least 1"},
		{[]string{"check", "-layers", "x", good}, `invalid value "x" for flag -layers`},
		{[]string{"check", "-max-product", "0.5", good}, "-max-product 0.5 is not at least 1"},
		{[]string{"check", "-max-product", "NaN", good}, "-max-product NaN is not at least 1"},
		{[]string{"check", "-allow", "everything", good}, `-allow "everything" is not a kind of finding: known are invalid, `},
		{[]string{"check", "-descriptors", "nosuch.binpb", good}, "-descriptors: open nosuch.binpb: no such file"},
		{[]string{"check", "-descriptors", notProtos, good}, notProtos + " is not a FileDescriptorSet: make it with buf build -o"},
		{[]string{"check", "-", "-"}, "standard input can only be read once"},
		{[]string{"convert"}, "0 files are given, not one"},
		{[]string{"convert", good, good}, "2 files are given, not one"},
		{[]string{"convert", "-to", "toml", good}, `-to "toml" is neither config nor service-config`},
		{[]string{"convert", "-format", "toml", good}, `-format "toml" is neither yaml nor json`},
		{[]string{"convert", "-format", "yaml", good}, "-format yaml: a service config is JSON"},
		{[]string{"convert", "-format", "yaml", "-json", "testdata/service-config.json"}, "-format yaml: with -json the result is JSON"},
		{[]string{"convert", "nosuch.yaml"}, "open nosuch.yaml: no such file or directory"},
		{[]string{"explain"}, "no method is given"},
		{[]string{"explain", "shop.v1.Cart/AddItem"}, `"shop.v1.Cart/AddItem" is not a method: write /pkg.Service/Method`},
		{[]string{"explain", "/shop.v1.Cart/"}, `"/shop.v1.Cart/" is not a method: write /pkg.Service/Method`},
		{[]string{"explain", "/a/b", "nosuch.yaml"}, "open nosuch.yaml: no such file or directory"},
		{[]string{"explain", "/a/b", good, "testdata/dangerous.yaml"}, "testdata/retrybudget.yaml and testdata/dangerous.yaml are both a configuration: only one of each can be in use"},
		{[]string{"explain", "-descriptors", quickstartProtos(t), "/a/b", good}, "/a/b is not in "},
		{[]string{"plan"}, "-layers is missing"},
		{[]string{"plan", "-layers", "3,0"}, `"0" is not a whole number from 1 to 1000000`},
		{[]string{"plan", "-json", "-layers", strings.Repeat("1000000,", 50) + "2"}, "-layers has 51 edges, more than 50"},
		{[]string{"plan", "-layers", "3", "-budget", "0"}, "-budget 0 is not in 0.001..1"},
		{[]string{"plan", "-layers", "3", "-budget", "0.0005"}, "-budget 0.0005, -capacity 20, -initial 0: "},
		{[]string{"plan", "-layers", "3", "-budget", "NaN"}, "is not in 0.001..1"},
		{[]string{"plan", "-layers", "3", "-capacity", "0"}, "-capacity 0 is not at least 1"},
		{[]string{"plan", "-layers", "3", "-capacity", "5", "-initial", "6"}, "Initial 6 is not in 0..Capacity (5)"},
		{[]string{"plan", "-layers", "3", "-replicas", "1,,2"}, `"" is not a whole number`},
		{[]string{"plan", "-layers", "3", "-rate", "0"}, "-rate 0 is not above 0"},
		{[]string{"plan", "-layers", "3", "-outage", "1ms"}, "-outage 1ms is not at least 1s"},
		{[]string{"plan", "-layers", "3", "file"}, `"file" is not a flag: plan reads no files`},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			got := runWith("", tt.args...)
			assert.Equal(t, exitUsage, got.code)
			assert.Empty(t, got.out)
			assert.Contains(t, lines(got.errors)[0], tt.want)
			assert.True(t, strings.HasPrefix(got.errors, "retrybudget"), got.errors)
			assert.LessOrEqual(t, len(lines(got.errors)), 2)
		})
	}
}

// Help goes to standard output, has examples and names every flag.
func TestRun_help(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}, {"check", "-h"}, {"convert", "--help"}, {"explain", "x", "-h"}, {"plan", "-layers", "3", "-h"}} {
		got := runWith("", args...)
		assert.Equal(t, exitFine, got.code, "%v", args)
		assert.Empty(t, got.errors, "%v", args)
		assert.Contains(t, got.out, "usage: retrybudget ", "%v", args)
		assert.Contains(t, got.out, "\nexamples:\n  ", "%v", args)
		assert.Contains(t, strings.ToLower(got.out), "exit status: 0", "%v", args)
		for _, line := range lines(got.out) {
			assert.LessOrEqual(t, len(line), 112, "%v", args)
		}
	}
	help := runWith("", "check", "-h").out
	for _, k := range kinds {
		assert.Contains(t, help, "\n  "+k+" ", "check explains each kind")
	}
}

func TestRun_withoutCommand(t *testing.T) {
	t.Parallel()
	got := runWith("")
	assert.Equal(t, exitUsage, got.code)
	assert.Empty(t, got.out)
	assert.Contains(t, got.errors, "usage: retrybudget COMMAND")
}

// Flags may stand after files; -- ends them.
func TestRun_flagsAfterFiles(t *testing.T) {
	t.Parallel()
	first := runWith("", "check", "-json", "-layers", "3", "testdata/retrybudget.yaml")
	assert.Equal(t, first, runWith("", "check", "testdata/retrybudget.yaml", "-layers", "3", "-json"))
	assert.Contains(t, runWith("", "check", "--", "-json").errors, "open -json: no such file")
}

// brokenWriter is a standard output that was closed.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("nobody listens") }

func TestRun_writeErrorsAreNotIgnored(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-h"},
		{"check", "-h"},
		{"check", "testdata/retrybudget.yaml"},
		{"check", "-json", "testdata/retrybudget.yaml"},
		{"convert", "testdata/retrybudget.yaml"},
		{"explain", "/a/b", "testdata/retrybudget.yaml"},
		{"plan", "-layers", "3"},
	} {
		var errs strings.Builder
		assert.Equal(t, exitUsage, run(args, strings.NewReader(""), brokenWriter{}, &errs), "%v", args)
		assert.Contains(t, errs.String(), "retrybudget: standard output: nobody listens", "%v", args)
	}
	assert.Equal(t, exitUsage, run([]string{"check"}, strings.NewReader(""), io.Discard, brokenWriter{}))
}

// brokenReader is a standard input that cannot be read.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("no input") }

func TestRun_readErrorsAreNotIgnored(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "-"}, {"convert", "-"}, {"explain", "/a/b", "-"}} {
		var errs strings.Builder
		assert.Equal(t, exitUsage, run(args, brokenReader{}, io.Discard, &errs), "%v", args)
		assert.Contains(t, errs.String(), "no input")
	}
}

// The built program, as CI runs it.
func TestProgram_exitCodes(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "retrybudget")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"check", "testdata/retrybudget.yaml"}, 0},
		{[]string{"check", "-strict", "testdata/retrybudget.yaml"}, 1},
		{[]string{"check", "-strict", "-allow", "unsafe-codes", "testdata/retrybudget.yaml"}, 0},
		{[]string{"check", "testdata/broken.yaml"}, 1},
		{[]string{"check", "nosuch.yaml"}, 2},
		{[]string{"plan", "-layers", "3,3,3"}, 0},
		{[]string{"-h"}, 0},
		{nil, 2},
	} {
		command := exec.CommandContext(t.Context(), program, tt.args...)
		_ = command.Run() // the exit code is what is looked at
		assert.Equal(t, tt.want, command.ProcessState.ExitCode(), "%v", tt.args)
	}
	if runtime.GOOS != "linux" {
		return // no /dev/full
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	command := exec.CommandContext(t.Context(), program, "check", "testdata/retrybudget.yaml")
	command.Stdout = full
	_ = command.Run()
	assert.Equal(t, 2, command.ProcessState.ExitCode(), "no space for the output")
}
