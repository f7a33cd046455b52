package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// session finds the blocks of a document that show commands and what they print.
var session = regexp.MustCompile("(?s)```console\n(.*?)```")

// What the documents show is what the program prints: -update writes it anew.
func TestDocuments_showTrueOutput(t *testing.T) {
	documents := map[string]string{}
	for _, name := range []string{"README.md", "../../docs/checklist.md"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		path, err := filepath.Abs(name)
		require.NoError(t, err)
		documents[path] = string(text)
	}
	inTestdata(t)
	for path, text := range documents {
		shown := 0
		got := session.ReplaceAllStringFunc(text, func(block string) string {
			command, _, _ := strings.Cut(strings.TrimPrefix(block, "```console\n"), "\n")
			r := runWith("", strings.Fields(strings.TrimPrefix(command, "$ retrybudget "))...)
			shown++
			return "```console\n" + command + "\n" + r.out + r.errors + "```"
		})
		require.Positive(t, shown)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		}
		assert.Equal(t, text, got)
	}
}

// inTestdata makes a folder the current one that has the files of testdata and the
// descriptors of the quickstart service.
func inTestdata(t *testing.T) {
	t.Helper()
	dir := filepath.Dir(quickstartProtos(t))
	files, err := filepath.Glob("testdata/*.*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(f)), data, 0o600))
	}
	t.Chdir(dir)
}

// The README names every field of the JSON forms, and no other.
func TestReadme_namesTheFieldsOfJSON(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## JSON\n")
	require.True(t, found)
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(section, -1) {
		named = append(named, strings.Trim(m[1], "`"))
	}
	var fields []string
	for _, c := range []struct {
		command string
		form    any
	}{
		{"check", checkReport{}}, {"explain", explained{}}, {"convert", conversion{}}, {"plan", planned{}},
	} {
		fields = append(fields, fieldsOf(c.command, reflect.TypeOf(c.form))...)
	}
	assert.Equal(t, fields, named)
}

// fieldsOf returns the paths of a type's fields in JSON.
func fieldsOf(path string, form reflect.Type) (all []string) {
	for f := range form.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner, at := f.Type, path+" ."+name
		if strings.Contains(path, " ") {
			at = path + "." + name
		}
		if inner.Kind() == reflect.Slice && inner.Name() == "" {
			inner, at = inner.Elem(), at+"[]"
		}
		all = append(all, at)
		if inner.Kind() == reflect.Struct {
			all = append(all, fieldsOf(at, inner)...)
		}
	}
	return all
}
