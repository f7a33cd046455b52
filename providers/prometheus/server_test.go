package prometheus_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program returns the path of one of the programs of Debian's package prometheus.
// Without it the test is skipped, but not in CI, which installs it.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "" {
		require.NoError(t, err, "CI is to install Debian's package prometheus")
	}
	if err != nil {
		t.Skipf("%s is not installed; it is in Debian's package prometheus", name)
	}
	return path
}

// promtool runs a command of promtool, which must succeed.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program(t, "promtool"), args...).CombinedOutput()
	require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
}

// server is a Prometheus that runs until the test ends.
type server struct{ address string }

// startPrometheus starts one that scrapes addresses every 250 ms and evaluates the
// rules in the text as often.
func startPrometheus(t *testing.T, rules string, addresses []string) server {
	t.Helper()
	dir := t.TempDir()
	targets, err := json.Marshal(addresses)
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(rules), 0o600))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 250ms, evaluation_interval: 250ms}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: storm
    static_configs: [{targets: %s}]
`, targets), 0o600))
	promtool(t, "check", "config", config)

	cmd := exec.CommandContext(t.Context(), program(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var said strings.Builder
	lines := bufio.NewScanner(log)
	t.Cleanup(func() {
		_, _ = io.Copy(io.Discard, log) // ends with the process, which ended with t.Context
		_ = cmd.Wait()                  // killed: an error
	})
	for listening := regexp.MustCompile(`msg="Listening on" address=(\S+)`); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() {
					continue // a full pipe would stop the process
				}
			}()
			return server{m[1]}
		}
	}
	require.Fail(t, "Prometheus did not start", said.String())
	return server{}
}

// get asks the HTTP API and decodes the data of the answer.
func (s server) get(path string, query url.Values, data any) error {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + s.address + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// sample is one series of the answer to a query.
type sample struct {
	Metric map[string]string
	Value  [2]any // the time, and the value as a string
}

// query evaluates an expression now.
func (s server) query(expr string) ([]sample, error) {
	var data struct{ Result []sample }
	err := s.get("query", url.Values{"query": {expr}}, &data)
	return data.Result, err
}

// rule is an alerting rule and what it does.
type rule struct {
	Name, Query, State, Health, LastError string
	Alerts                                []struct {
		State               string
		Labels, Annotations map[string]string
	}
}

func (s server) rules() (all []rule, err error) {
	var data struct{ Groups []struct{ Rules []rule } }
	err = s.get("rules", url.Values{"type": {"alert"}}, &data)
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	return all, err
}
