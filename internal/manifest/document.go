package manifest

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"podstead.io/podstead/internal/pod"
)

// chunk is the text of one YAML document, or of several JSON ones.
type chunk struct {
	text []byte
	line int // of its first byte, from 1
}

// decodeText checks that a unit is UTF-8 and takes a byte order mark off.
func decodeText(data []byte) ([]byte, *pod.FieldError) {
	utf16 := bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe"))
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(bytes.Trim(data, "\x00 \t\r\n")) == 0 {
		return nil, &pod.FieldError{Reason: causeInvalid, Message: "there is nothing in it; to remove its pods, remove it or leave a comment in it"}
	}
	// Without a mark, UTF-16 text in Latin script has a NUL in every pair.
	if head := data[:min(len(data), 4)]; utf16 || bytes.IndexByte(head, 0) >= 0 {
		return nil, &pod.FieldError{Reason: causeInvalid, Line: 1, Message: "the text is UTF-16 or binary; save it as UTF-8"}
	}
	line := 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return nil, &pod.FieldError{Reason: causeInvalid, Line: line, Message: fmt.Sprintf("byte 0x%02x is not UTF-8; save the text as UTF-8", data[i])}
		}
		if r < ' ' && !strings.ContainsRune("\t\n\r", r) {
			return nil, &pod.FieldError{Reason: causeInvalid, Line: line, Message: fmt.Sprintf("control character 0x%02x: this is not a text file; save it as one, or quote the character", r)}
		}
		if r == '\n' {
			line++
		}
		i += size
	}
	return data, nil
}

// split cuts a unit at its document markers. YAML allows "---" and "..." at the
// start of a line nowhere but between documents, so no parser is needed, and a
// broken document does not hide the ones after it. Chunks that hold nothing but
// comments are left out.
func split(data []byte) []chunk {
	var chunks []chunk
	var start, startLine = 0, 1
	content, directive := false, false
	flush := func(end, next, nextLine int) {
		switch {
		case content:
			chunks = append(chunks, chunk{text: data[start:end], line: startLine})
		case directive && next == end: // %YAML 1.2 belongs to the document that follows
			return
		}
		start, startLine, content, directive = next, nextLine, false, false
	}
	for pos, line := 0, 1; pos < len(data); line++ {
		next := len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			next = pos + i + 1
		}
		text := data[pos:next]
		switch {
		case isMarker(text, "---"):
			flush(pos, pos, line)
			text = text[3:]
		case isMarker(text, "..."):
			flush(pos, next, line+1)
			text = nil
		case !content && bytes.HasPrefix(text, []byte("%")):
			if !directive { // what was before it is comments
				start, startLine, directive = pos, line, true
			}
			text = nil
		}
		text = bytes.TrimSpace(text)
		content = content || len(text) > 0 && text[0] != '#'
		pos = next
	}
	content = content || directive
	flush(len(data), len(data), 0)
	return chunks
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(blank, rest[0]) >= 0)
}

// document is one decoded document.
type document struct {
	value any // of map[string]any, []any, string, bool, json.Number and nil
	root  *yaml.Node
}

// decode reads a chunk: as JSON when it is that, one document after another,
// and else as one YAML document.
func decode(c chunk, limits Limits) ([]document, []pod.FieldError) {
	body, line := c.text, c.line
	if isMarker(body, "---") {
		first, rest, _ := bytes.Cut(body[3:], []byte("\n"))
		if first = bytes.TrimSpace(first); len(first) == 0 || first[0] == '#' {
			body, line = rest, line+1
		}
	}
	var jsonFaults []pod.FieldError
	if object, ok := bytes.CutPrefix(bytes.TrimLeft(body, blank), []byte("{")); ok {
		var docs []document
		if docs, jsonFaults = decodeJSON(body, line, limits); len(jsonFaults) == 0 {
			return docs, nil
		}
		// Flow mappings of YAML start with a brace as well. What is neither was
		// meant to be JSON if a quote follows.
		if !bytes.HasPrefix(bytes.TrimLeft(object, blank), []byte(`"`)) {
			jsonFaults = nil
		}
	}
	doc, faults := decodeYAML(c, limits)
	switch {
	case len(faults) == 0:
		return []document{doc}, nil
	case len(jsonFaults) > 0:
		return nil, jsonFaults
	default:
		return nil, faults
	}
}

const blank = " \t\r\n"
