package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar reads a value that is not a mapping into a field of m. protojson reads
// it, as the only field of a message of its own, so that an error has a place.
func (r *reader) scalar(path string, n *yaml.Node, f protoreflect.FieldDescriptor, m protoreflect.Message) {
	line := n.Line
	n = r.follow(path, n)
	if n == nil {
		return
	}
	value, ok := jsonOf(n, f)
	if ok {
		if f.IsList() {
			value = "[" + value + "]"
		}
		one := m.New()
		if protojson.Unmarshal(fmt.Appendf(nil, "{%q:%s}", f.Name(), value), one.Interface()) == nil {
			proto.Merge(m.Interface(), one.Interface())
			return
		}
	}
	r.fail(path, line, "%s is not %s", describe(n), wanted(n, f))
}

// jsonOf returns a node as JSON of the kind that the field asks for, false if it
// is of another.
func jsonOf(n *yaml.Node, f protoreflect.FieldDescriptor) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		return "", false
	}
	tag := n.ShortTag()
	switch {
	case f.Kind() == protoreflect.EnumKind:
		return enumJSON(n, f.Enum())
	case f.Kind() == protoreflect.StringKind || isDuration(f):
		return encode(n.Value), tag == "!!str" || tag == "!!timestamp"
	case f.Kind() == protoreflect.BoolKind:
		var b bool
		return strconv.FormatBool(b), false
	}
	return numberJSON(n, f)
}

func encode(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

var _ = strings.ToUpper
var _ = time.ParseDuration
