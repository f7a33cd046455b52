package serviceconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// value is a JSON value and where it is.
type value struct {
	kind   kind
	path   string
	line   int
	text   string // of a string or a number
	items  []*value
	fields []field
}

// field is a member of an object.
type field struct {
	name  string
	value *value
}

// kind is the kind of a JSON value, as errors name it.
type kind string

const (
	isObject kind = "an object"
	isArray  kind = "an array"
	isString kind = "a string"
	isNumber kind = "a number"
	isBool   kind = "true or false"
	isNull   kind = "null"
)

// get returns the member of an object, nil if there is none.
func (v *value) get(name string) *value {
	if v == nil {
		return nil
	}
	for _, f := range v.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// mostDepth bounds how deep values may be nested, because each knows its path.
const mostDepth = 100

// tree reads data, whose members and elements know where they are.
type tree struct {
	r     *reader
	data  []byte
	dec   *json.Decoder
	seen  int // bytes of data whose lines are counted
	line  int // of the byte after them
	depth int
}

// parse returns the tree of a JSON text, or nil after an error.
func (r *reader) parse(data []byte) *value {
	if !utf8.Valid(data) {
		r.failAt("", 1, "is not valid UTF-8")
		return nil
	}
	t := tree{r: r, data: data, line: 1}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			t.advance(int(syntax.Offset))
		}
		if isOwnYAML(data) {
			r.failAt("", t.line, "is not JSON: %s", isOwn)
			return nil
		}
		r.failAt("", t.line, "is not JSON: %v", err)
		return nil
	}
	t.dec = json.NewDecoder(bytes.NewReader(data))
	t.dec.UseNumber()
	root := t.value("")
	if t.depth > mostDepth {
		r.failAt("", t.line, "is nested more than %d deep", mostDepth)
		return nil
	}
	return root
}

// advance counts lines up to an offset.
func (t *tree) advance(to int) {
	to = min(to, len(t.data))
	if to > t.seen {
		t.line += bytes.Count(t.data[t.seen:to], []byte("\n"))
		t.seen = to
	}
}

// next returns the next token. There is always one, since the text is valid.
func (t *tree) next() json.Token {
	token, _ := t.dec.Token()
	t.advance(int(t.dec.InputOffset()))
	return token
}

func (t *tree) value(path string) *value {
	token := t.next()
	v := &value{path: path, line: t.line, kind: isNull}
	switch token := token.(type) {
	case string:
		v.kind, v.text = isString, token
	case json.Number:
		v.kind, v.text = isNumber, token.String()
	case bool:
		v.kind = isBool
	case json.Delim:
		if t.depth++; t.depth > mostDepth {
			return v // and so do all around it
		}
		if token == '[' {
			v.kind = isArray
			t.array(v)
		} else {
			v.kind = isObject
			t.object(v)
		}
	}
	return v
}

// more reports whether the array or object has another element, and ends it if
// not.
func (t *tree) more() bool {
	if t.depth > mostDepth {
		return false
	}
	if t.dec.More() {
		return true
	}
	t.next()
	t.depth--
	return false
}

func (t *tree) array(v *value) {
	for t.more() {
		v.items = append(v.items, t.value(fmt.Sprintf("%s[%d]", v.path, len(v.items))))
	}
}

func (t *tree) object(v *value) {
	names := map[string]bool{}
	for t.more() {
		name, _ := t.next().(string)
		line := t.line
		member := t.value(join(v.path, name))
		member.line = line
		if names[name] {
			t.r.fail(member, "is there twice")
			continue
		}
		names[name] = true
		v.fields = append(v.fields, field{name, member})
	}
}

// join returns the path of a member. Names that would be misread are quoted.
func join(path, name string) string {
	if name == "" || strings.ContainsAny(name, " .[]\"\\\n\t") {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
