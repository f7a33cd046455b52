package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// mostGrowth bounds how many times larger aliases can make a file.
	mostGrowth = 10
	// mostErrors bounds how many are kept: a file of another kind, such as a log,
	// has one in each line.
	mostErrors = 100
)

// reader fills a message from a tree of YAML nodes and collects what is wrong.
type reader struct {
	file  string
	lines map[string]int // of each path
	nodes int            // visited
	most  int            // that may be
	errs  []*Error
	more  *Error // where the first one was that is left out
	left  int    // how many are
}

func (r *reader) fail(path string, line int, format string, args ...any) {
	if len(r.errs) == mostErrors {
		if r.left++; r.left == 1 {
			r.more = &Error{File: r.file, Line: line}
		}
		return
	}
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Path: path, Problem: fmt.Sprintf(format, args...)})
}

// lineOf returns the line of a path, or of the nearest one around it.
func (r *reader) lineOf(path string) int {
	for path != "" {
		if line, ok := r.lines[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return r.lines[""]
}

// document returns the only document of a text.
func (r *reader) document(data []byte) *yaml.Node {
	r.most = mostGrowth * len(data)
	if json.Valid(data) {
		// YAML has no tabs between values; JSON has none inside strings.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF) || err == nil && isEmpty(&doc):
		r.fail("", 0, "is empty: {} stands for a configuration of defaults")
		return nil
	case err != nil:
		line, text := r.syntax(err)
		r.fail("", line, "%s", text)
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		r.fail("", more.Line, "has a second document")
		return nil
	}
	return doc.Content[0]
}

// isEmpty reports whether there is nothing in a document but comments.
func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null"
}

// place finds the line in the text of a syntax error.
var place = regexp.MustCompile(`\bline (\d+)(?:, column \d+)?: ?`)

func (r *reader) syntax(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := place.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	return line, "is not YAML: " + text
}

// follow returns the node that an alias stands for.
func (r *reader) follow(path string, n *yaml.Node) *yaml.Node {
	r.nodes++
	if r.nodes > r.most {
		if r.nodes == r.most+1 {
			r.fail(path, n.Line, "is too much: aliases repeat it %d times and more", mostGrowth)
		}
		return nil
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// message reads a mapping into m.
func (r *reader) message(path string, n *yaml.Node, m protoreflect.Message) {
	line := n.Line
	n = r.follow(path, n)
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(path, line, "is %s, not a mapping", describe(n))
		return
	}
	first := map[protoreflect.Name]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f := r.field(path, key, m.Descriptor())
		if f == nil {
			continue
		}
		at := join(path, string(f.Name()))
		if line, twice := first[f.Name()]; twice {
			r.fail(at, key.Line, "is there twice, first in line %d", line)
			continue
		}
		first[f.Name()] = key.Line
		r.lines[at] = key.Line
		if of := f.ContainingOneof(); of != nil && !of.IsSynthetic() {
			if other := m.WhichOneof(of); other != nil {
				r.fail(at, key.Line, "is there beside %s: only one of them may be", other.Name())
				continue
			}
		}
		r.value(at, key.Line, value, f, m)
	}
}

// field returns the field that a key names.
func (r *reader) field(path string, key *yaml.Node, m protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	switch {
	case key.Kind != yaml.ScalarNode:
		r.fail(path, key.Line, "has a key that is %s", describe(key))
		return nil
	case key.ShortTag() == "!!merge":
		r.fail(path, key.Line, "has a merge key (<<), which is not supported: repeat the values")
		return nil
	}
	if f := m.Fields().ByName(protoreflect.Name(key.Value)); f != nil {
		return f
	}
	if f := m.Fields().ByJSONName(key.Value); f != nil {
		return f
	}
	if path == "" && (key.Value == "methodConfig" || key.Value == "retryThrottling") {
		r.fail(key.Value, key.Line, "is unknown: this is a gRPC service config: use serviceconfig.Parse")
		return nil
	}
	var known []string
	for i := range m.Fields().Len() {
		known = append(known, string(m.Fields().Get(i).Name()))
	}
	problem := "is unknown"
	if len(known) > 0 {
		problem += ": known here are " + strings.Join(known, ", ")
	}
	r.fail(join(path, quoted(key.Value)), key.Line, "%s", problem)
	return nil
}

// value reads the value of a field into m. line is that of its key.
func (r *reader) value(path string, line int, n *yaml.Node, f protoreflect.FieldDescriptor, m protoreflect.Message) {
	to := r.follow(path, n)
	switch {
	case to == nil:
	case to.ShortTag() == "!!null" && isMessage(f) && !f.IsList():
		r.fail(path, line, "is empty: write {} for the defaults")
	case to.ShortTag() == "!!null":
		r.fail(path, line, "is empty: leave it out for the default")
	case f.IsList() && to.Kind != yaml.SequenceNode:
		r.fail(path, line, "is %s, not a list", describe(to))
	case f.IsList() && len(to.Content) == 0:
		r.fail(path, line, "is an empty list: leave it out for the default")
	case f.IsList():
		for i, item := range to.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.lines[at] = item.Line
			r.element(at, item, f, m)
		}
	default:
		r.element(path, n, f, m)
	}
}

// element reads one value of a field, which may have many.
func (r *reader) element(path string, n *yaml.Node, f protoreflect.FieldDescriptor, m protoreflect.Message) {
	switch {
	case !isMessage(f):
		r.scalar(path, n, f, m)
	case f.IsList():
		r.message(path, n, m.Mutable(f).List().AppendMutable().Message())
	default:
		r.message(path, n, m.Mutable(f).Message())
	}
}

// isMessage reports whether a field's values are mappings.
func isMessage(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && !isDuration(f)
}

func isDuration(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().FullName() == "google.protobuf.Duration"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// quoted returns a key as a part of a path.
func quoted(key string) string {
	if plain.MatchString(key) {
		return key
	}
	return strconv.Quote(key)
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// describe says what a node is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return "empty"
		case "!!str":
			return strconv.Quote(n.Value)
		}
		return n.Value
	default:
		return "something else"
	}
}
