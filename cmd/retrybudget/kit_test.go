package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

const service = "/retrybudget.quickstart.v1.InventoryService/"

// result is what a run left.
type result struct {
	code        int
	out, errors string
}

// runWith runs the program with a text as standard input.
func runWith(stdin string, args ...string) result {
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// writeFile writes a file into a folder of the test and returns its name.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// quickstartProtos writes the descriptors of the quickstart service, as buf build
// does, and returns the file's name.
func quickstartProtos(t testing.TB, change ...func(*descriptorpb.FileDescriptorProto)) string {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(quickstartv1.File_retrybudget_quickstart_v1_quickstart_proto)
	for _, c := range change {
		c(file)
	}
	data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	require.NoError(t, err)
	return writeFile(t, "protos.binpb", string(data))
}

// lines returns the lines of a text.
func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
