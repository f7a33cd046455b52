package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun_badFlagExits2(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"-rate", "-1"}, &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), "storm: -rate -1: must be above 0")
}

func TestRun_badScenarioExits2(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 2, run(t.Context(), []string{"-scenario", "flood"}, &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), `storm: -scenario "flood": unknown; known are overload, outage, slowdown, partial`)
}

func TestRun_helpExits0(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 0, run(t.Context(), []string{"-help"}, &stdout, &stderr))
	assert.Contains(t, stdout.String(), "usage:")
	assert.Empty(t, stderr.String())
}

func TestRun_interruptExits130(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, 130, run(ctx, []string{"-out", ""}, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "interrupted")
}

func TestReport_exitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*result)
		want   int
		stdout string
		stderr string
	}{
		"quick met":             {func(*result) {}, exitDone, "quick: ok", ""},
		"quick not met":         {func(r *result) { r.Rows = r.Rows[:1] }, exitFailed, "quick: FAILED", ""},
		"no quick, no mark":     {func(r *result) { r.Rows, r.Config.Quick = r.Rows[:1], false }, exitDone, "no retries", ""},
		"quick, nothing judged": {func(r *result) { r.Rows, r.Config.Scenario = r.Rows[:1], "outage" }, exitDone, "quick: nothing is judged in -scenario outage", ""},
		"interrupted":           {func(r *result) { r.Interrupted, r.Until = true, 3*time.Second }, exitInterrupted, "interrupted after 3.0 s of 15.5 s", ""},
		"unwritable report":     {func(r *result) { r.Config.Out = filepath.Join(r.Config.Out, "missing", "x.html") }, exitFailed, "no retries", "storm: report: "},
	} {
		r := madeUp("overload")
		test.change(&r)
		var stdout, stderr bytes.Buffer
		assert.Equal(t, test.want, report(r, nil, &stdout, &stderr), name)
		assert.Contains(t, stdout.String(), test.stdout, name)
		assert.Contains(t, stderr.String(), test.stderr, name)
	}
}

func TestRun_serveBadAddress(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitUsage, run(t.Context(), []string{"-serve", "nonsense"}, &stdout, &stderr))
	assert.Contains(t, stderr.String(), `storm: -serve "nonsense": must be host:port or :port: `)

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	stderr.Reset()
	assert.Equal(t, exitFailed, run(t.Context(), []string{"-serve", taken.Addr().String()}, &stdout, &stderr))
	assert.Regexp(t, fmt.Sprintf(`^storm: -serve %q: listen tcp .*in use\n$`, taken.Addr().String()), stderr.String())
	assert.Empty(t, stdout.String())
}

// text is a buffer that a program writes and a test reads at the same time.
type text struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *text) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *text) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

var livePage = regexp.MustCompile(`(?m)^live page: (http://\S+/)$`)

func TestRun_serveStaysUpUntilInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr text
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{
			"-serve", "127.0.0.1:0", "-out", "", "-strategies", "none,retrybudget", "-rate", "40", "-clients", "2", "-workers", "3",
			"-health", "1s", "-fault", "1s", "-tail", "5s",
		}, &stdout, &stderr)
	}()
	require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "the live page stays up until Ctrl-C") }, time.Minute, 20*time.Millisecond)
	assert.Contains(t, stdout.String(), "no retries", "the table is there already")
	url := livePage.FindStringSubmatch(stderr.String())
	require.NotNil(t, url)
	assert.False(t, listen(t, strings.TrimSuffix(url[1], "/")).end.Interrupted)
	select {
	case <-code:
		t.Fatal("it does not stay up")
	default:
	}
	interrupt()
	assert.Equal(t, exitDone, <-code)
	_, err := http.Get(url[1]) //nolint:noctx // nobody answers
	assert.Error(t, err)
}
