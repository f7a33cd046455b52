package main

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// configYAML returns cfg as the YAML that package config reads, in the order of
// the message's fields.
func configYAML(cfg *retrybudgetv1.Config) ([]byte, error) {
	root, err := mapping(cfg.ProtoReflect())
	if err != nil {
		return nil, err
	}
	root.Style = 0
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// mapping returns a message as a YAML node. A small one is written in one line.
func mapping(m protoreflect.Message) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	flat := true
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		value, err := fieldValue(f, m.Get(f))
		if err != nil {
			return nil, err
		}
		flat = flat && value.Kind == yaml.ScalarNode
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(f.Name())}, value)
	}
	if flat {
		node.Style = yaml.FlowStyle
	}
	return node, nil
}

func fieldValue(f protoreflect.FieldDescriptor, v protoreflect.Value) (*yaml.Node, error) {
	if !f.IsList() {
		return single(f, v)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	flat := true
	for i := range v.List().Len() {
		item, err := single(f, v.List().Get(i))
		if err != nil {
			return nil, err
		}
		if item.Kind == yaml.MappingNode { // - names: on a line of its own
			item.Style = 0
		}
		flat = flat && item.Kind == yaml.ScalarNode
		list.Content = append(list.Content, item)
	}
	if flat {
		list.Style = yaml.FlowStyle
	}
	return list, nil
}

func single(f protoreflect.FieldDescriptor, v protoreflect.Value) (*yaml.Node, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if f.Message().FullName() == "google.protobuf.Duration" {
			return duration(v.Message().Interface())
		}
		return mapping(v.Message())
	case protoreflect.EnumKind:
		return enum(f.Enum(), v.Enum()), nil
	case protoreflect.BoolKind:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}, nil
	case protoreflect.DoubleKind:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(v.Float(), 'g', -1, 64)}, nil
	case protoreflect.StringKind:
		node := &yaml.Node{}
		node.SetString(v.String())
		return node, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v.String()}, nil
	}
}

// duration returns seconds, without the zeros that protobuf's JSON mapping adds.
func duration(m proto.Message) (*yaml.Node, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	value := strings.TrimSuffix(strings.Trim(string(text), `"`), "s")
	if strings.Contains(value, ".") {
		value = strings.TrimRight(value, "0")
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value + "s"}, nil
}

// enum returns the short name of a value: UNAVAILABLE for codes, lower case for
// the rest.
func enum(of protoreflect.EnumDescriptor, n protoreflect.EnumNumber) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strconv.Itoa(int(n))}
	prefix := strings.TrimSuffix(string(of.Values().ByNumber(0).Name()), "UNSPECIFIED")
	v := of.Values().ByNumber(n)
	if v == nil {
		return node
	}
	node.Value = strings.TrimPrefix(string(v.Name()), prefix)
	if prefix != "CODE_" {
		node.Value = strings.ToLower(node.Value)
	}
	if node.Value == "off" { // a truth value to older readers of YAML
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}
