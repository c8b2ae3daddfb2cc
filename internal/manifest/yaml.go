package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"podstead.io/podstead/internal/pod"
)

// decodeYAML reads one YAML document twice: as a tree of nodes, which tells the
// lines and is checked before anything is expanded, and through Kubernetes' own
// conversion, which decides what the scalars mean.
func decodeYAML(c chunk, limits Limits) (document, []pod.FieldError) {
	root, err := parseYAML(c.text)
	if err != nil {
		return document{}, []pod.FieldError{yamlFault(err, c)}
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) == 0 {
		return document{}, nil
	}
	g := &guard{
		lineOffset: c.line - 1,
		maxBytes:   2 * limits.UnitBytes,
		maxValues:  limits.values(),
		seen:       map[*yaml.Node]extent{},
		open:       map[*yaml.Node]bool{},
	}
	if _, fault := g.visit(root.Content[0], nil); fault != nil {
		return document{}, []pod.FieldError{*fault}
	}
	if len(g.faults) > 0 {
		return document{}, g.faults
	}
	text, err := sigsyaml.YAMLToJSON(c.text)
	if err != nil {
		return document{}, []pod.FieldError{yamlFault(err, c)}
	}
	value, err := jsonValue(text)
	if err != nil {
		return document{}, []pod.FieldError{yamlFault(err, c)}
	}
	return document{value: value, root: root.Content[0]}, nil
}

// parseYAML reads the only document of a text.
func parseYAML(text []byte) (*yaml.Node, error) {
	var root yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&root)
	if err == nil {
		// The parser stops after a document in flow style, whatever follows.
		err = dec.Decode(&yaml.Node{})
	}
	if errors.Is(err, io.EOF) {
		return &root, nil
	}
	// Kubernetes' parser names the line where the trouble is, not the one where
	// the value around it starts.
	if _, clearer := sigsyaml.YAMLToJSON(text); clearer != nil {
		err = clearer
	}
	return nil, cmp.Or(err, errTrailing)
}

var errTrailing = errors.New("there is something after the end of the document; put --- between documents")

// yamlLine finds the line in what the YAML parsers report: they have no typed
// error for it.
var yamlLine = regexp.MustCompile(`^line ([0-9]+): `)

func yamlFault(err error, c chunk) pod.FieldError {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line, message = c.line+n-1, message[len(m[0]):]
		}
	}
	if tab := tabIndent(c.text); tab > 0 {
		return pod.FieldError{Reason: causeInvalid, Message: "a tab is used for indentation, which YAML does not allow; use spaces", Line: c.line + tab - 1}
	}
	if line == 0 { // the parser tells none
		return pod.FieldError{Reason: causeInvalid, Message: message + "; correct it in the document that starts here", Line: c.line}
	}
	return pod.FieldError{Reason: causeInvalid, Message: message + "; correct this line, or the one before it", Line: line}
}

// tabIndent is the first line, from 1, that is indented with a tab; 0: none.
func tabIndent(text []byte) int {
	line := 0
	for l := range bytes.Lines(text) {
		line++
		if bytes.HasPrefix(bytes.TrimLeft(l, " "), []byte("\t")) && len(bytes.TrimSpace(l)) > 0 {
			return line
		}
	}
	return 0
}
