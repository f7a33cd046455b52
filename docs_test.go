package retrybudget_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget"
)

// The blocks of Go code are taken from examples, which are compiled; those that
// configure something also make a call that fails.
func TestReadme_snippetsAreFromExamples(t *testing.T) {
	t.Parallel()
	examples := []struct{ file, name string }{
		{"example_test.go", "ExampleNew"},
		{"example_config_test.go", "ExampleWithMethodPolicy"},
		{"config/example_test.go", "ExampleLoad"},
		{"example_config_test.go", "ExampleWithResolverPolicies"},
		{"config/example_test.go", "ExampleWatch"},
		{"example_server_test.go", "ExampleUnaryServerInterceptor"},
		{"providers/prometheus/example_test.go", "ExampleNewMetrics"},
	}
	snippets := blocksOf(t, "README.md", "go")
	require.Len(t, snippets, len(examples))
	for i, e := range examples {
		assert.Contains(t, bodyOf(t, e.file, e.name), snippets[i], "%s in %s", e.name, e.file)
	}
	assert.Equal(t, bodyOf(t, "example_test.go", "ExampleNew"), snippets[0], "all of it")
}

// The .proto example is that of the quickstart, which the tests of the method
// option call.
func TestReadme_protoIsFromTheQuickstart(t *testing.T) {
	t.Parallel()
	text := readText(t, "proto/retrybudget/quickstart/v1/quickstart.proto")
	blocks := blocksOf(t, "README.md", "proto")
	require.Len(t, blocks, 1)
	assert.Contains(t, strings.ReplaceAll(text, "\n  ", "\n"), blocks[0])
}

// blocksOf returns the blocks of code in a language.
func blocksOf(t *testing.T, doc, language string) (blocks []string) {
	t.Helper()
	for _, part := range strings.Split(readText(t, doc), "\n```"+language+"\n")[1:] {
		block, _, found := strings.Cut(part, "```")
		require.True(t, found)
		blocks = append(blocks, block)
	}
	return blocks
}

func TestReadme_listsTheReasonsInOrder(t *testing.T) {
	t.Parallel()
	var want []string
	for _, r := range retrybudget.Reasons() {
		want = append(want, r.String())
	}

	assert.Equal(t, want, firstColumn(t, "README.md", "What the caller gets back"))
}

func TestContributing_tableListsTheRoot(t *testing.T) {
	t.Parallel()
	listed := firstColumn(t, "CONTRIBUTING.md", "Where things are")
	for _, name := range listed {
		info, err := os.Stat(name)
		if assert.NoError(t, err, "listed in CONTRIBUTING.md") {
			assert.Equal(t, info.IsDir(), strings.HasSuffix(name, "/"), "%s: folders end in a slash", name)
		}
	}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var missing []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		ours := e.IsDir() && name[0] != '.' || filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")
		if ours && !slices.Contains(listed, name) {
			missing = append(missing, name)
		}
	}
	assert.Empty(t, missing, "not listed in CONTRIBUTING.md")
}

func TestDocs_linksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, doc := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(withoutCode(readText(t, doc)), -1) {
			path, anchor := m[1], m[2]
			if strings.Contains(path, "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(doc), path)
			if path == "" {
				target = doc
			}
			if !assert.FileExistsf(t, target, "%s links to it", doc) {
				// A folder has no anchors.
				continue
			}
			if anchor != "" {
				assert.Containsf(t, anchorsOf(readText(t, target)), anchor, "%s links to it in %s", doc, target)
			}
		}
	}
}

// go test -run is content with a name that matches nothing.
func TestDocs_testsTheyNameExist(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, file := range files(t, "_test.go") {
		sources.WriteString(readText(t, file))
	}
	for _, doc := range files(t, ".md") {
		for _, name := range testName.FindAllString(readText(t, doc), -1) {
			assert.Containsf(t, sources.String(), "func "+name, "named in %s", doc)
		}
	}
}

var (
	// link finds the path and the anchor of a Markdown link.
	link = regexp.MustCompile(`\]\(([^)#\s]*)#?([^)\s]*)\)`)
	// row finds the name in the first cell of a table's row.
	row = regexp.MustCompile("(?m)^\\| `([^`]+)` +\\|")
	// heading finds a heading's text.
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// testName finds the name of a test, or the beginning of some.
	testName = regexp.MustCompile(`\b(Test|Fuzz|Benchmark|Example)[A-Z]\w+`)
	// code finds blocks and spans of code.
	code = regexp.MustCompile("(?s)\n```.*?\n```|`[^`\n]*`")
)

// files returns the repository's files whose names end in suffix.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, suffix) {
			all = append(all, path)
		}
		return err
	}))
	require.NotEmpty(t, all)
	return all
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func withoutCode(markdown string) string { return code.ReplaceAllString(markdown, "") }

// anchorsOf returns the anchors of a document's headings, as GitHub makes them.
func anchorsOf(markdown string) []string {
	var all []string
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range heading.FindAllStringSubmatch(markdown, -1) {
		all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// firstColumn returns the names in the first column of a section's tables.
func firstColumn(t *testing.T, name, title string) []string {
	t.Helper()
	_, section, found := strings.Cut(readText(t, name), "\n## "+title+"\n")
	require.True(t, found, "%s has no section %q", name, title)
	section, _, _ = strings.Cut(section, "\n## ")
	var all []string
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		assert.NotContains(t, all, m[1], "twice")
		all = append(all, m[1])
	}
	return all
}

// bodyOf returns the lines of a function's body, without the indentation that
// all of them have.
func bodyOf(t *testing.T, file, name string) string {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
			text := readText(t, file)[set.Position(f.Body.Lbrace).Offset+2 : set.Position(f.Body.Rbrace).Offset]
			return strings.ReplaceAll(strings.TrimPrefix(text, "\t"), "\n\t", "\n")
		}
	}
	require.Failf(t, "no such function", "%s in %s", name, file)
	return ""
}

// A metric that a document names is one of those in docs/metrics.md.
func TestDocs_metricsTheyNameExist(t *testing.T) {
	t.Parallel()
	known := readText(t, "docs/metrics.md")
	for _, doc := range files(t, ".md") {
		for _, name := range regexp.MustCompile(`\bgrpc_retrybudget_[a-z_]+\b`).FindAllString(readText(t, doc), -1) {
			assert.Containsf(t, known, name, "named in %s", doc)
		}
	}
}
