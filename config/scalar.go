package config

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrybudget/retrybudget/internal/spelling"
)

// scalar reads a value that is not a mapping into a field of m. protojson reads
// it, as the only field of a message of its own, so that an error has a place.
func (r *reader) scalar(path string, n *yaml.Node, f protoreflect.FieldDescriptor, m protoreflect.Message) {
	line := n.Line
	n = r.follow(path, n)
	if n == nil {
		return
	}
	if value, ok := jsonOf(n, f); ok {
		if f.IsList() {
			value = "[" + value + "]"
		}
		one := m.New()
		if protojson.Unmarshal(fmt.Appendf(nil, "{%q:%s}", f.Name(), value), one.Interface()) == nil {
			proto.Merge(m.Interface(), one.Interface())
			return
		}
	}
	r.fail(path, line, "%s %s", describe(n), problem(n, f))
}

// number is a number as JSON has it, or with the sign or digit left out that YAML
// does not ask for. YAML's octal and hexadecimal ones are left to programmers.
var number = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// jsonOf returns a node as JSON of the kind that the field asks for, false if it
// is of another.
func jsonOf(n *yaml.Node, f protoreflect.FieldDescriptor) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		return "", false
	}
	tag := n.ShortTag()
	switch {
	case f.Kind() == protoreflect.EnumKind && tag == "!!str":
		return enumValue(n.Value, f.Enum())
	case f.Kind() == protoreflect.EnumKind:
		return n.Value, tag == "!!int"
	case f.Kind() == protoreflect.StringKind || isDuration(f):
		return quote(n.Value), tag == "!!str" || tag == "!!timestamp"
	case f.Kind() == protoreflect.BoolKind:
		return strings.ToLower(n.Value), tag == "!!bool"
	}
	if (tag != "!!int" && tag != "!!float") || !number.MatchString(n.Value) {
		return "", false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	return quote(v), err == nil
}

// quote returns a text or a number as JSON.
func quote(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // no text and no finite number
		return "null"
	}
	return string(text)
}

// enumValue returns the number of an enum value, whose name may be in any case
// and without the prefix that it has in the proto.
func enumValue(name string, enum protoreflect.EnumDescriptor) (string, bool) {
	for i := range enum.Values().Len() {
		v := enum.Values().Get(i)
		full := string(v.Name())
		if strings.EqualFold(name, full) || strings.EqualFold(name, short(enum, v)) {
			return strconv.Itoa(int(v.Number())), true
		}
	}
	return "", false
}

// short returns the name of an enum value without its prefix, which is the name
// of the enum.
func short(enum protoreflect.EnumDescriptor, v protoreflect.EnumValueDescriptor) string {
	prefix := strings.TrimSuffix(string(enum.Values().ByNumber(0).Name()), "UNSPECIFIED")
	return strings.TrimPrefix(string(v.Name()), prefix)
}

// problem says what is wrong with a value, by what the field asks for, and how to
// write what was probably meant.
func problem(n *yaml.Node, f protoreflect.FieldDescriptor) string {
	switch {
	case isDuration(f):
		if d, err := time.ParseDuration(n.Value); err == nil {
			return fmt.Sprintf("is not a duration in seconds: write %q", seconds(d))
		}
		return `is not a duration in seconds, such as "0.1s"`
	case f.Kind() == protoreflect.EnumKind:
		return unknownValue(n, f.Enum())
	case f.Kind() == protoreflect.StringKind:
		return "is not a text: put it in quotes"
	case f.Kind() == protoreflect.BoolKind:
		return "is not true or false"
	case f.Kind() == protoreflect.DoubleKind:
		return "is not a number"
	default:
		return notWhole(n)
	}
}

// unknownValue is the problem of a value that an enum does not have.
func unknownValue(n *yaml.Node, enum protoreflect.EnumDescriptor) string {
	var names []string
	for i := range enum.Values().Len() {
		if v := enum.Values().Get(i); v.Number() != 0 {
			names = append(names, short(enum, v))
		}
	}
	if meant := spelling.Nearest(n.Value, names); meant != "" {
		return fmt.Sprintf("is unknown: did you mean %s?", meant)
	}
	return "is not one of " + strings.Join(names, ", ")
}

// notWhole is the problem of a value that is no whole number, or one that no field can
// hold. Which numbers a setting may have is for the library to say.
func notWhole(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float") && number.MatchString(n.Value) {
		switch v, err := strconv.ParseFloat(n.Value, 64); {
		case err == nil && v != math.Trunc(v):
		case err == nil && v < 0:
			return "is negative"
		case err == nil && v > math.MaxUint32:
			return "is too large"
		}
	}
	return "is not a whole number"
}

// seconds returns d as protobuf's JSON mapping has it.
func seconds(d time.Duration) string {
	text, err := protojson.Marshal(durationpb.New(d))
	if err != nil {
		return d.String()
	}
	return strings.Trim(string(text), `"`)
}
