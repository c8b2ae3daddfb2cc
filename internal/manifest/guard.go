package manifest

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"podstead.io/podstead/internal/pod"
)

// maxDepth is how deep a document may nest. A pod needs less than 20 levels.
const maxDepth = 100

// valuesPerDocument bounds how many values a unit's documents have on average;
// a large pod has a few hundred.
const valuesPerDocument = 300

func (l Limits) values() int { return l.Documents * valuesPerDocument }

// extent is how large a node is with its aliases expanded.
type extent struct {
	bytes int // of scalars, and one for each node
	depth int
}

// guard checks a tree without expanding it: an alias costs a look-up, so a
// document that would grow without bound is refused in linear time.
type guard struct {
	lineOffset int
	maxBytes   int // with aliases expanded
	maxValues  int
	seen       map[*yaml.Node]extent
	open       map[*yaml.Node]bool // on the way from the root: an alias to one is a cycle
	faults     faults
}

// visit measures n, makes its line absolute and notes bad keys.
func (g *guard) visit(n *yaml.Node, at path) (extent, *pod.FieldError) {
	if e, ok := g.seen[n]; ok {
		return e, nil
	}
	n.Line += g.lineOffset
	if g.open[n] {
		return extent{}, &pod.FieldError{Field: at.String(), Reason: causeInvalid, Line: n.Line, Message: "the anchor contains an alias to itself; write the value out"}
	}
	if len(g.seen) >= g.maxValues {
		return extent{}, &pod.FieldError{Reason: causeInvalid, Line: n.Line, Message: fmt.Sprintf("more than %d values; split it up", g.maxValues)}
	}
	if len(at) > maxDepth {
		return extent{}, &pod.FieldError{Reason: causeInvalid, Line: n.Line, Message: fmt.Sprintf("nested more than %d levels deep; flatten it", maxDepth)}
	}
	g.open[n] = true
	defer delete(g.open, n)
	e, fault := g.measure(n, at)
	if fault != nil {
		return extent{}, fault
	}
	g.seen[n] = e
	return e, nil
}

func (g *guard) measure(n *yaml.Node, at path) (extent, *pod.FieldError) {
	e := extent{bytes: 1 + len(n.Value)}
	add := func(child *yaml.Node, at path) *pod.FieldError {
		sub, fault := g.visit(child, at)
		if fault != nil {
			return fault
		}
		e.bytes += sub.bytes
		e.depth = max(e.depth, sub.depth+1)
		switch {
		case e.bytes > g.maxBytes:
			return &pod.FieldError{Reason: causeInvalid, Line: n.Line, Message: fmt.Sprintf("with its aliases expanded the document is larger than %d bytes; split it up", g.maxBytes)}
		case len(at)+e.depth > 2*maxDepth:
			return &pod.FieldError{Reason: causeInvalid, Line: n.Line, Message: fmt.Sprintf("with its aliases expanded the document is nested more than %d levels deep; flatten it", 2*maxDepth)}
		}
		return nil
	}
	g.checkNode(n, at)
	switch n.Kind {
	case yaml.AliasNode:
		return e, add(n.Alias, at)
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if fault := add(item, at.item(i)); fault != nil {
				return e, fault
			}
		}
	case yaml.MappingNode:
		g.checkKeys(n, at)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			e.bytes += 1 + len(key.Value)
			key.Line += g.lineOffset
			if fault := add(n.Content[i+1], at.field(key.Value)); fault != nil {
				return e, fault
			}
		}
	}
	return e, nil
}

// checkKeys notes keys that are given twice, and keys that are not strings to
// Kubernetes' parser, which would make other strings of them.
func (g *guard) checkKeys(n *yaml.Node, at path) {
	first := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		tag := key.ShortTag()
		line := key.Line + g.lineOffset
		switch {
		case key.Kind != yaml.ScalarNode:
			g.faults.add(pod.FieldError{Field: at.String(), Reason: causeInvalid, Line: line, Message: "a key must be plain text; if this is one text, quote all of it"})
			continue
		case tag == "!!merge":
			g.checkMerge(n.Content[i+1], at, line)
			continue
		case tag != "!!str" || isOldBoolean(key):
			g.faults.add(pod.FieldError{Field: at.field(key.Value).String(), Reason: causeTypeInvalid, Line: line,
				Message: fmt.Sprintf("the key %s is not text to YAML; quote it: %q", key.Value, key.Value)})
		}
		if was, twice := first[key.Value]; twice {
			g.faults.add(pod.FieldError{Field: at.field(key.Value).String(), Reason: causeDuplicate, Line: line,
				Message: fmt.Sprintf("%q is given twice, first on line %d; remove one of them", key.Value, was)})
			continue
		}
		first[key.Value] = line
	}
}

// checkNode notes what YAML has and JSON has not.
func (g *guard) checkNode(n *yaml.Node, at path) {
	tag := n.ShortTag()
	switch {
	case n.Style&yaml.TaggedStyle != 0 && !knownTags[tag]:
		g.faults.add(pod.FieldError{Field: at.String(), Reason: causeInvalid, Line: n.Line,
			Message: fmt.Sprintf("the tag %s means nothing here; remove it", shorten(n.Tag))})
	case n.Kind == yaml.ScalarNode && tag == "!!float" && strings.ContainsAny(n.Value, "nN"): // .inf, .NaN
		g.faults.add(pod.FieldError{Field: at.String(), Reason: causeTypeInvalid, Line: n.Line,
			Message: fmt.Sprintf("%s is no number to Kubernetes; write a finite one, or quote it", n.Value)})
	}
}

// knownTags are those of what JSON can hold too.
var knownTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true, "!!map": true, "!!seq": true, "!!binary": true, "!!merge": true,
}

// checkMerge notes a merge of what are no fields.
func (g *guard) checkMerge(from *yaml.Node, at path, line int) {
	from = resolve(from)
	ok := from.Kind == yaml.MappingNode
	if from.Kind == yaml.SequenceNode {
		ok = !slices.ContainsFunc(from.Content, func(n *yaml.Node) bool { return resolve(n).Kind != yaml.MappingNode })
	}
	if !ok {
		g.faults.add(pod.FieldError{Field: at.field("<<").String(), Reason: causeTypeInvalid, Line: line,
			Message: "only fields can be merged in; name an anchor of such with *"})
	}
}

// isOldBoolean reports words that YAML 1.1, which Kubernetes reads, takes for
// booleans, and the node tree does not.
func isOldBoolean(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0 &&
		slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, strings.ToLower(n.Value))
}

// checkTree looks at the keys of a tree without aliases.
func (g *guard) checkTree(n *yaml.Node, at path) {
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			g.checkTree(item, at.item(i))
		}
	case yaml.MappingNode:
		g.checkKeys(n, at)
		for i := 0; i+1 < len(n.Content); i += 2 {
			g.checkTree(n.Content[i+1], at.field(n.Content[i].Value))
		}
	}
}
