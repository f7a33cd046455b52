package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium with one page, driven through a pipe.
type browser struct {
	commands *os.File
	session  string // of the page

	mu      sync.Mutex
	last    int
	answers map[int]chan json.RawMessage
	// complaints are errors of the page's scripts, and what the console got.
	complaints []string
}

// message is a command, an answer or an event of the DevTools protocol.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// openBrowser opens a page. Without Chromium the test is skipped, but not in CI,
// which installs it.
func openBrowser(t *testing.T, url string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		require.NoError(t, err, "CI must have Debian's package chromium")
	}
	if err != nil {
		t.Skip("chromium is not installed; Debian's package chromium has it")
	}
	// Its helpers may write there a moment longer than it lives, so this is not
	// t.TempDir, which must be left alone.
	profile, err := os.MkdirTemp("", "storm") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, 20*time.Second, 50*time.Millisecond)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+profile,
		"--window-size=1280,1000", "--remote-debugging-pipe", "about:blank")
	theirCommands, commands, err := os.Pipe()
	require.NoError(t, err)
	output, theirOutput, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{theirCommands, theirOutput} // its descriptors 3 and 4
	require.NoError(t, cmd.Start())
	theirCommands.Close()
	theirOutput.Close()
	b := &browser{commands: commands, answers: map[int]chan json.RawMessage{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(bufio.NewReader(output)) })
	t.Cleanup(func() {
		commands.Close() // which ends it
		_ = cmd.Wait()
		output.Close()
		reading.Wait()
	})

	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", map[string]any{"url": url}, &target)
	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call(t, "Runtime.enable", nil, nil)
	b.call(t, "Log.enable", nil, nil)
	return b
}

// read reads what the browser says until it is gone.
func (b *browser) read(output *bufio.Reader) {
	for {
		text, err := output.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch answer := b.answers[m.ID]; {
		case answer != nil && m.Error != nil:
			answer <- m.Error
		case answer != nil:
			answer <- m.Result
		case m.Method == "Runtime.exceptionThrown" || m.Method == "Runtime.consoleAPICalled" || m.Method == "Log.entryAdded":
			b.complaints = append(b.complaints, strings.TrimSuffix(string(text), "\x00"))
		}
		b.mu.Unlock()
	}
}

// call sends a command and waits for its result.
func (b *browser) call(t *testing.T, method string, params map[string]any, result any) {
	t.Helper()
	answer := make(chan json.RawMessage, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Method: method, Session: b.session}
	if params != nil {
		m.Params = params
	}
	b.answers[m.ID] = answer
	b.mu.Unlock()
	text, err := json.Marshal(m)
	require.NoError(t, err)
	_, err = b.commands.Write(append(text, 0))
	require.NoError(t, err)
	select {
	case text := <-answer:
		if result != nil {
			require.NoError(t, json.Unmarshal(text, result), "%s: %s", method, text)
		}
	case <-time.After(time.Minute):
		require.Fail(t, "the browser does not answer", method)
	}
}

// eval returns the value of an expression in the page, as a string.
func (b *browser) eval(t *testing.T, expression string) string {
	t.Helper()
	var value struct {
		Result struct{ Value string }
	}
	b.call(t, "Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "returnByValue": true}, &value)
	return value.Result.Value
}

func (b *browser) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.complaints
}
