package prometheus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program returns the path of a program that something brings. Without it the test
// is skipped, but not in CI, which installs it.
func program(t *testing.T, name, from string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "" {
		require.NoError(t, err, "CI is to install %s", from)
	}
	if err != nil {
		t.Skipf("%s is not installed; it is in %s", name, from)
	}
	return path
}

const debian = "Debian's package prometheus"

// promtool runs a command of promtool, which must succeed.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program(t, "promtool", debian), args...).CombinedOutput()
	require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
}

// server is a Prometheus that runs until the test ends.
type server struct{ address string }

// startPrometheus starts one that scrapes the addresses of each job twice a second,
// which leaves a busy machine time to answer, and evaluates the rules in the text.
func startPrometheus(t *testing.T, rules string, jobs map[string][]string) server {
	t.Helper()
	dir := t.TempDir()
	text := []byte(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 250ms}
rule_files: [alerts.yml]
scrape_configs:
`)
	for job, addresses := range jobs {
		targets, err := json.Marshal(addresses)
		require.NoError(t, err)
		text = fmt.Appendf(text, "  - {job_name: %s, static_configs: [{targets: %s}]}\n", job, targets)
	}
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(rules), 0o600))
	require.NoError(t, os.WriteFile(config, text, 0o600))
	promtool(t, "check", "config", config)

	p := launch(t, syscall.SIGTERM, program(t, "prometheus", debian), "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage")
	return server{p.await(t, `msg="Listening on" address=(\S+)`+"\n", time.Minute)}
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

// history evaluates an expression for all moments since one, and returns how many
// of the values are numbers.
func (s server) history(expr string, since time.Time) (numbers int, err error) {
	var data struct{ Result []struct{ Values [][2]any } }
	err = s.get("query_range", url.Values{
		"query": {expr}, "step": {"250ms"},
		"start": {since.Format(time.RFC3339Nano)}, "end": {time.Now().Format(time.RFC3339Nano)},
	}, &data)
	for _, series := range data.Result {
		for _, v := range series.Values {
			if v[1] != "NaN" {
				numbers++
			}
		}
	}
	return numbers, err
}

// rule is an alerting rule and what it does.
type rule struct {
	Name, Health, LastError string
	Alerts                  []alert
}

type alert struct {
	State               string
	Labels, Annotations map[string]string
}

func (s server) rules() (all []rule, err error) {
	var data struct{ Groups []struct{ Rules []rule } }
	err = s.get("rules", url.Values{"type": {"alert"}}, &data)
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	return all, err
}
