package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told is what /events told of a run.
type told struct {
	story   storyShown
	samples []sample
	end     *finalNote
}

// listen reads events until the end of the run.
func listen(t *testing.T, url string) (seen told) {
	t.Helper()
	response := get(t, url+"/events")
	assert.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	kind := ""
	for seen.end == nil && lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = name
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var into any
		switch kind {
		case "story":
			into = &seen.story
		case "sample":
			seen.samples = append(seen.samples, sample{})
			into = &seen.samples[len(seen.samples)-1]
		case "end":
			seen.end = &finalNote{}
			into = seen.end
		}
		require.NoError(t, json.Unmarshal([]byte(data), into), "%s %s", kind, data)
	}
	require.NotNil(t, seen.end, "%v", lines.Err())
	return seen
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// servedConfig is a tiny run of three strategies, one of this project, with limits
// that a busy machine does not reach.
func servedConfig() config {
	c := tinyConfig()
	c.AttemptTimeout, c.Deadline = 2*time.Second, 4*time.Second
	c.Strategies, c.Serve = []string{"none", "retrybudget", "naive"}, "localhost:0"
	return c
}

// serving returns a site for the test, and where it is.
func serving(t *testing.T, c config) (*site, string) {
	t.Helper()
	s := newSite(c)
	server := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		s.cancel()
		server.Close()
	})
	return s, server.URL
}

func TestServe_tellsTheRun(t *testing.T) {
	t.Parallel()
	c := servedConfig()
	s, url := serving(t, c)
	var early told
	var listening sync.WaitGroup
	listening.Go(func() { early = listen(t, url) })
	r, err := play(t.Context(), c, s.follow(func(context.Context, *live) {}))
	require.NoError(t, err)
	s.end(r)
	listening.Wait()

	assert.Equal(t, c.scenario().Title, early.story.Title)
	assert.InDelta(t, 3, early.story.Length, 0)
	assert.InDelta(t, 1, early.story.From, 0)
	assert.InDelta(t, 2, early.story.To, 0)
	require.Len(t, early.story.Shown, 3)
	assert.Equal(t, "retrybudget", early.story.Shown[1].Title)
	for i, w := range early.story.Shown {
		assert.Equal(t, i == 1, w.Budget, w.Title)
	}
	assert.Equal(t, r.Machine.Saturated(), early.end.Warning != "")
	assert.False(t, early.end.Interrupted)
	require.GreaterOrEqual(t, len(early.samples), 2)

	// Rates times their spans are what was counted.
	at, tokens := 0.0, 0.0
	sums := make([]reading, 3)
	for _, next := range early.samples {
		span := next.At - at
		require.Positive(t, span)
		at = next.At
		for i, n := range next.Readings {
			sums[i].Offered += n.Offered * span
			sums[i].Goodput += n.Goodput * span
			tokens = max(tokens, n.Tokens)
		}
	}
	for i, row := range r.Rows {
		for _, n := range []float64{sums[i].Offered, sums[i].Goodput, sums[i].Refused} {
			assert.InDelta(t, math.Round(n), n, 1e-6, row.Strategy.Name)
		}
		// What arrives after the story's end is in no sample.
		assert.LessOrEqual(t, sums[i].Offered, float64(row.Attempts)+1e-6, row.Strategy.Name)
		assert.Greater(t, sums[i].Offered, 0.5*float64(row.Attempts), row.Strategy.Name)
		assert.LessOrEqual(t, sums[i].Goodput, sums[i].Offered+1e-6, row.Strategy.Name)
		assert.Positive(t, sums[i].Goodput, row.Strategy.Name)
	}
	assert.Positive(t, tokens)

	assert.Equal(t, early, listen(t, url), "who comes late gets all of it")
}

func TestServe_metricsOfTheRun(t *testing.T) {
	t.Parallel()
	c := servedConfig()
	s, url := serving(t, c)
	r, err := play(t.Context(), c, s.follow(func(context.Context, *live) {}))
	require.NoError(t, err)
	response := get(t, url+"/metrics")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	text := string(body)
	sum := func(metric string) (n int) {
		for _, line := range regexp.MustCompile(`(?m)^`+metric+`\{([^}]*)\} (\d+)$`).FindAllStringSubmatch(text, -1) {
			assert.Contains(t, line[1], `strategy="retrybudget"`)
			more, err := strconv.Atoi(line[2])
			require.NoError(t, err)
			n += more
		}
		return n
	}
	assert.Equal(t, r.Rows[1].Calls, sum("grpc_retrybudget_calls_total"))
	assert.Equal(t, r.Rows[1].Calls+sum("grpc_retrybudget_retries_total"), sum("grpc_retrybudget_attempts_total"))
	assert.GreaterOrEqual(t, sum("grpc_retrybudget_attempts_total"), r.Rows[1].Attempts, "on a busy machine some end before they arrive")
	assert.Contains(t, text, "grpc_retrybudget_budget_tokens{")
	assert.Equal(t, 40, sum("grpc_retrybudget_budget_capacity_tokens"), "two clients with a bucket of 20 each")
}

func TestServe_files(t *testing.T) {
	t.Parallel()
	_, url := serving(t, servedConfig())
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/live.css": "text/css; charset=utf-8", "/live.js": "text/javascript; charset=utf-8", "/icon.svg": "image/svg+xml"} {
		response := get(t, url+path)
		assert.Equal(t, http.StatusOK, response.StatusCode, path)
		assert.Equal(t, kind, response.Header.Get("Content-Type"), path)
		assert.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'self'")
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		remote := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "")
		assert.NotContains(t, remote, "://", "%s needs nothing from elsewhere", path)
	}
	assert.Equal(t, http.StatusNotFound, get(t, url+"/page").StatusCode)
}

func TestServe_saysWhatWentWrong(t *testing.T) {
	t.Parallel()
	s, url := serving(t, servedConfig())
	r := madeUp("overload")
	r.Interrupted, r.Machine.Late = true, time.Second
	s.end(r)
	end := listen(t, url).end
	assert.True(t, end.Interrupted)
	assert.Contains(t, end.Warning, "do not trust these numbers")
}

// Neither a client that goes nor one that stops reading holds anything up, and
// nothing of them is left.
func TestEvents_clientsThatDoNotListen(t *testing.T) {
	t.Parallel()
	s, url := serving(t, servedConfig())
	s.patience = 100 * time.Millisecond
	readers := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return s.readers.Load() == n }, 20*time.Second, 5*time.Millisecond)
	}
	stuck, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer stuck.Close()
	_, err = io.WriteString(stuck, "GET /events HTTP/1.1\r\nHost: here\r\n\r\n")
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	readers(2)
	leave()
	readers(1)

	// More than sockets hold; nobody waits for it to be read.
	begun := time.Now()
	large := strings.Repeat("x", 1<<20)
	for range 32 {
		s.feed.add("sample", large)
	}
	assert.Less(t, time.Since(begun), 10*time.Second)
	readers(0)
}

// The end of the program does not wait for readers.
func TestSite_closesUnderReaders(t *testing.T) {
	t.Parallel()
	s, err := openSite(servedConfig())
	require.NoError(t, err)
	response := get(t, s.url+"events")
	require.Eventually(t, func() bool { return s.readers.Load() == 1 }, 20*time.Second, 5*time.Millisecond)
	s.close()
	_, err = io.ReadAll(response.Body)
	assert.NoError(t, err, "a clean end")
	assert.Zero(t, s.readers.Load())
	_, err = net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/"))
	assert.Error(t, err)
}
