package manifest

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// step is one part of a path: a field, an item of a list, or a key of a map.
type step struct {
	name  string // field or key
	index int    // item
	kind  stepKind
}

type stepKind int

const (
	stepField stepKind = iota
	stepItem
	stepKey
)

// path leads from an object to a value in it. It is never changed in place.
type path []step

func (p path) with(s step) path       { return append(slices.Clip(p), s) }
func (p path) field(name string) path { return p.with(step{name: name, kind: stepField}) }
func (p path) item(i int) path        { return p.with(step{index: i, kind: stepItem}) }
func (p path) key(k string) path      { return p.with(step{name: k, kind: stepKey}) }

// String is the path as Kubernetes writes it: spec.containers[0].image,
// metadata.labels[app].
func (p path) String() string {
	return p.write(func(i int) string { return "[" + strconv.Itoa(i) + "]" })
}

// pattern is the path with every index left out, as the table in fields.go has
// it: spec.containers[].image. Keys of maps stay.
func (p path) pattern() string {
	return p.write(func(int) string { return "[]" })
}

func (p path) write(item func(int) string) string {
	var b strings.Builder
	for _, s := range p {
		switch s.kind {
		case stepField:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		case stepItem:
			b.WriteString(item(s.index))
		case stepKey:
			b.WriteString("[" + s.name + "]")
		}
	}
	return b.String()
}

// id tells places apart, whether a step is written as a field or as a key.
func (p path) id() string {
	var b strings.Builder
	for _, s := range p {
		if s.kind == stepItem {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			b.WriteString(strconv.Quote(s.name))
		}
		b.WriteByte('/')
	}
	return b.String()
}

// parsePath reads a path that Kubernetes' validation wrote.
func parsePath(s string) path {
	var p path
	for s != "" {
		switch s[0] {
		case '.':
			s = s[1:]
		case '[':
			end := strings.IndexByte(s, ']')
			if end < 0 {
				return p
			}
			if i, err := strconv.Atoi(s[1:end]); err == nil {
				p = p.item(i)
			} else {
				p = p.key(s[1:end])
			}
			s = s[end+1:]
		default:
			end := strings.IndexAny(s, ".[")
			if end < 0 {
				end = len(s)
			}
			p, s = p.field(s[:end]), s[end:]
		}
	}
	return p
}

// locate follows the path through a node tree, aliases and merges included, as
// far as it goes, and returns the line of the last key or item found and its
// value. node is nil when the path leads further than the tree.
func locate(root *yaml.Node, p path) (line int, node *yaml.Node) {
	node = root
	line = root.Line
	for _, s := range p {
		key, value := child(node, s)
		if value == nil {
			return line, nil
		}
		line, node = key.Line, value
	}
	return line, node
}

// child finds the node that a step leads to, and the node whose line names it.
func child(n *yaml.Node, s step) (key, value *yaml.Node) {
	n = resolve(n)
	switch n.Kind {
	case yaml.SequenceNode:
		if s.kind == stepItem && s.index < len(n.Content) {
			return n.Content[s.index], n.Content[s.index]
		}
	case yaml.MappingNode:
		name := s.name
		if s.kind == stepItem { // a key that looks like a number, out of a parsed path
			name = strconv.Itoa(s.index)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1]
			}
		}
		return merged(n, s)
	}
	return nil, nil
}

// merged looks for the step in what a mapping merges in with <<.
func merged(n *yaml.Node, s step) (key, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			continue
		}
		sources := []*yaml.Node{n.Content[i+1]}
		if from := resolve(n.Content[i+1]); from.Kind == yaml.SequenceNode {
			sources = from.Content
		}
		for _, from := range sources {
			if resolve(from).Kind != yaml.MappingNode {
				continue
			}
			if key, value = child(from, s); value != nil {
				return key, value
			}
		}
	}
	return nil, nil
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
