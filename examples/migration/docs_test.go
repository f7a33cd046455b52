package migration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const document = "../../docs/migration.md"

// indented finds the white space that lines begin with.
var indented = regexp.MustCompile(`(?m)^[ \t]+`)

// Every block of Go code in the document is, line for line, in a file of this
// package, but for how far it is indented there.
func TestDocument_codeIsFromHere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var code []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		code = append(code, strings.Split(string(data), "\n")...)
	}
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)\n```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		assert.True(t, contains(code, strings.Split(b[1], "\n")), "in no file:\n%s", b[1])
	}
}

// contains reports whether the lines of block follow one another in code, each
// indented by the same further than in the block.
func contains(code, block []string) bool {
	for i := 0; i+len(block) <= len(code); i++ {
		further, ok := strings.CutSuffix(code[i], block[0])
		if !ok || indented.ReplaceAllString(further, "") != "" {
			continue
		}
		same := true
		for j, line := range block {
			same = same && (code[i+j] == further+line || line == "" && code[i+j] == "")
		}
		if same {
			return true
		}
	}
	return false
}
