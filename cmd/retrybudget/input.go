package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/config"
	"github.com/retrybudget/retrybudget/internal/spelling"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

// kind says what a file is.
type kind string

const (
	ownConfig     kind = "config"         // a retrybudget.v1.Config in YAML or JSON
	serviceConfig kind = "service-config" // a gRPC service config, JSON
)

func (k kind) String() string {
	if k == serviceConfig {
		return "gRPC service config"
	}
	return "configuration"
}

// input is a file that was read.
type input struct {
	name     string
	kind     kind
	data     []byte
	doc      *yaml.Node            // nil when it is neither YAML nor JSON
	cfg      *retrybudgetv1.Config // nil when there are problems
	problems []finding
}

// readInput reads a file, or standard input for "-". The error is that of reading
// it; what is wrong with its content is in its problems.
func readInput(name string, in io.Reader) (*input, error) {
	data, shown := []byte(nil), name
	var err error
	if name == "-" {
		shown = "<stdin>"
		data, err = io.ReadAll(in)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	return parseInput(shown, data), nil
}

func parseInput(name string, data []byte) *input {
	f := &input{name: name, data: data, doc: documentOf(data)}
	var both bool
	f.kind, both = kindOf(f.doc, data)
	if both {
		f.fail(0, "", "has keys of a gRPC service config beside those of a retrybudget configuration: make it one of the two")
		return f
	}
	var err error
	var cfg *retrybudgetv1.Config
	if f.kind == serviceConfig {
		cfg, err = serviceconfig.Parse(data)
	} else {
		cfg, err = config.Parse(data)
	}
	if err == nil {
		err = usable(cfg)
	}
	if err != nil {
		f.failAll(err)
		return f
	}
	f.cfg = cfg
	return f
}

// usable returns what keeps the library from using cfg. Names of methods are no
// reason: this program has none of them.
func usable(cfg *retrybudgetv1.Config) error {
	_, err := retrybudget.New(retrybudget.WithConfig(anyNames(cfg)))
	return err
}

// failAll notes each of the errors that err joins.
func (f *input) failAll(err error) {
	if err == nil {
		return
	}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		for _, err := range many.Unwrap() {
			f.failAll(err)
		}
		return
	}
	if e, ok := errors.AsType[*config.Error](err); ok {
		f.fail(e.Line, e.Path, e.Problem)
		return
	}
	if e, ok := errors.AsType[*serviceconfig.Error](err); ok {
		f.fail(e.Line, e.Path, e.Problem)
		return
	}
	if e, ok := errors.AsType[*retrybudget.ConfigError](err); ok {
		f.fail(f.line(e.Path), e.Path, e.Problem)
		return
	}
	f.fail(0, "", strings.TrimPrefix(err.Error(), "retrybudget: "))
}

func (f *input) fail(line int, path, problem string) {
	f.problems = append(f.problems, finding{
		File: f.name, Line: line, Path: path, Severity: isError, Kind: "invalid", Message: problem,
	})
}

// documentOf returns the root of a YAML or JSON text, nil if it is none.
func documentOf(data []byte) *yaml.Node {
	// JSON may be indented with tabs, YAML may not; there are none in JSON's strings.
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	var doc yaml.Node
	if yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

// serviceConfigKeys are how the keys begin that only a service config has, as
// letters in lower case, so that a misspelt one is still told by its reader.
var serviceConfigKeys = []string{"methodconfig", "retrythrottl", "loadbalancing", "healthcheck"}

// kindOf tells a service config from a configuration of this library by its keys,
// and whether there are keys of both. What has none of either is taken for a
// configuration, so that {} is one of defaults.
func kindOf(doc *yaml.Node, data []byte) (k kind, both bool) {
	if doc == nil { // not well formed
		if bytes.Contains(data, []byte(`"methodConfig"`)) || bytes.Contains(data, []byte(`"retryThrottling"`)) {
			return serviceConfig, false
		}
		return ownConfig, false
	}
	own := map[string]bool{}
	fields := (&retrybudgetv1.Config{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		own[spelling.Letters(string(fields.Get(i).Name()))] = true
	}
	found := map[kind]bool{}
	for i := 0; doc.Kind == yaml.MappingNode && i+1 < len(doc.Content); i += 2 {
		key := spelling.Letters(doc.Content[i].Value)
		switch {
		case own[key]:
			found[ownConfig] = true
		case slices.ContainsFunc(serviceConfigKeys, func(prefix string) bool { return strings.HasPrefix(key, prefix) }):
			found[serviceConfig] = true
		}
	}
	if len(found) == 2 {
		return ownConfig, true
	}
	if found[serviceConfig] {
		return serviceConfig, false
	}
	return ownConfig, false
}
