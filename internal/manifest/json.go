package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"podstead.io/podstead/internal/pod"
)

// decodeJSON reads a stream of JSON values.
func decodeJSON(text []byte, line int, limits Limits) ([]document, []pod.FieldError) {
	var docs []document
	lines := &lineCounter{text: text, line: line}
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, []pod.FieldError{jsonFault(err, text, lines)}
		}
		start := dec.InputOffset() - int64(len(raw))
		root, faults := jsonTree(raw, lines.at(start), limits)
		if len(faults) > 0 {
			return nil, faults
		}
		value, err := jsonValue(raw)
		if err != nil {
			return nil, []pod.FieldError{jsonFault(err, text, lines)}
		}
		docs = append(docs, document{value: value, root: root})
		if len(docs) > limits.Documents {
			return docs, nil // the caller counts them and refuses the unit
		}
	}
}

func jsonFault(err error, text []byte, lines *lineCounter) pod.FieldError {
	fault := pod.FieldError{Reason: causeInvalid, Message: err.Error() + "; correct the JSON here"}
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		fault.Line, fault.Message = lines.at(int64(len(text))), "the JSON ends in the middle of a value; write it whole"
	case errors.As(err, &syntax):
		fault.Line = lines.at(syntax.Offset - 1)
	}
	return fault
}

// jsonValue decodes JSON and keeps numbers as they were written.
func jsonValue(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// lineCounter turns growing offsets into line numbers.
type lineCounter struct {
	text []byte
	pos  int64
	line int
}

func (c *lineCounter) at(offset int64) int {
	offset = min(offset, int64(len(c.text)))
	if offset > c.pos {
		c.line += bytes.Count(c.text[c.pos:offset], []byte("\n"))
		c.pos = offset
	}
	return c.line
}

// jsonTree makes the node tree of one JSON value and notes keys given twice.
func jsonTree(text []byte, line int, limits Limits) (*yaml.Node, []pod.FieldError) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	b := &jsonTreeBuilder{dec: dec, lines: &lineCounter{text: text, line: line}, left: limits.values()}
	root, err := b.value(0)
	if err != nil {
		return nil, []pod.FieldError{{Reason: causeInvalid, Line: b.lines.line, Message: err.Error()}}
	}
	g := &guard{}
	g.checkTree(root, nil)
	return root, g.faults
}

type jsonTreeBuilder struct {
	dec   *json.Decoder
	lines *lineCounter
	left  int // values that may come yet
}

var errTooMany = errors.New("too many values; split it up")

var errTooDeep = fmt.Errorf("nested more than %d levels deep; flatten it", maxDepth)

func (b *jsonTreeBuilder) value(depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	if b.left--; b.left < 0 {
		return nil, errTooMany
	}
	token, err := b.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: b.lines.at(b.dec.InputOffset() - 1)}
	delim, isDelim := token.(json.Delim)
	if !isDelim {
		n.Value, n.Tag = scalarText(token), "!!str"
		return n, nil
	}
	n.Kind = yaml.SequenceNode
	if delim == '{' {
		n.Kind = yaml.MappingNode
	}
	for b.dec.More() {
		if n.Kind == yaml.MappingNode {
			key, err := b.dec.Token()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, &yaml.Node{
				Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle,
				Value: scalarText(key), Line: b.lines.at(b.dec.InputOffset() - 1),
			})
		}
		item, err := b.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, item)
	}
	_, err = b.dec.Token() // the closing delimiter
	return n, err
}

// scalarText is a scalar as it stands in JSON, without quotes.
func scalarText(v any) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}
