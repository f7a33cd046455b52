package main

import (
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/retrybudget/retrybudget/internal/spelling"
)

// step finds the parts of a path: names and indexes.
var step = regexp.MustCompile(`[^.\[\]]+|\[\d+\]`)

// line returns the line of a path in the file, such as "methods[2].policy.timeout",
// or that of the nearest place around it; 0 without a document.
func (f *input) line(path string) int {
	if f.doc == nil {
		return 0
	}
	node, line := f.doc, f.doc.Line
	for _, name := range step.FindAllString(path, -1) {
		next, at := child(node, name)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// has reports whether the file itself says something at a path.
func (f *input) has(path string) bool {
	node := f.doc
	for _, name := range step.FindAllString(path, -1) {
		if node == nil {
			return false
		}
		node, _ = child(node, name)
	}
	return node != nil
}

// child returns a member of a mapping or an element of a list, and the line where
// it begins.
func child(node *yaml.Node, name string) (*yaml.Node, int) {
	node = aliased(node)
	if name[0] == '[' {
		i, err := strconv.Atoi(name[1 : len(name)-1])
		if err != nil || node.Kind != yaml.SequenceNode || i >= len(node.Content) {
			return nil, 0
		}
		return node.Content[i], node.Content[i].Line
	}
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; spelling.Letters(key.Value) == spelling.Letters(name) {
			return node.Content[i+1], key.Line
		}
	}
	return nil, 0
}

// aliased returns the node that an alias stands for.
func aliased(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}
