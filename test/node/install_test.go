package node_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder has the script, its package.json and its lock file.
const folder = "testdata"

// needNode skips the test where Node.js and npm are missing, but not in CI: there
// they are installed, and a test that does not run would go unseen.
func needNode(t *testing.T) {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed, and CI=true requires it", name)
		}
		t.Skipf("%s is not installed; this test runs a client in JavaScript (Debian: apt-get install nodejs npm)", name)
	}
	require.NoError(t, install())
}

// install installs the packages of the lock file unless they are there, once for
// all tests.
var install = sync.OnceValue(func() error {
	wanted, err := versionIn("package-lock.json", func(lock lockFile) string { return lock.Packages["node_modules/@grpc/grpc-js"].Version })
	if err != nil {
		return err
	}
	installed, err := versionIn(filepath.Join("node_modules", "@grpc", "grpc-js", "package.json"), func(p lockFile) string { return p.Version })
	if err == nil && installed == wanted {
		return nil
	}
	cmd := exec.Command("npm", "ci")
	cmd.Dir = folder
	if output, err := cmd.CombinedOutput(); err != nil {
		return &npmError{err, string(output)}
	}
	return nil
})

// lockFile is what is read of package.json and package-lock.json.
type lockFile struct {
	Version  string
	Packages map[string]struct{ Version string }
}

func versionIn(name string, version func(lockFile) string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return "", err
	}
	var lock lockFile
	if err := json.Unmarshal(text, &lock); err != nil {
		return "", err
	}
	return version(lock), nil
}

// npmError is a failed npm with what it said.
type npmError struct {
	err    error
	output string
}

func (e *npmError) Error() string { return "npm ci: " + e.err.Error() + "\n" + e.output }
func (e *npmError) Unwrap() error { return e.err }
