package introspect

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// single is the one statement that the text holds, without the semicolon after
// it. It follows SQLite's tokenizer. What it lets pass SQLite compiles; this only
// makes sure that the text can be put in parentheses.
func single(text string) (string, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "", errors.New("the text is not UTF-8, or has a NUL in it")
	}
	end := -1
	for i := 0; i < len(text); {
		next, kind, err := token(text, i)
		switch {
		case err != nil:
			return "", err
		case kind == semicolon && end < 0:
			end = i
		case kind == other && end >= 0:
			return "", errors.New("one statement at a time: there is more after the semicolon")
		}
		i = next
	}
	if end >= 0 {
		text = text[:end]
	}
	if first(text) == "" {
		return "", errors.New("there is no statement")
	}
	return text, nil
}

type tokenKind int

const (
	space tokenKind = iota // comments too
	semicolon
	other
)

// token says where what begins at i ends.
func token(text string, i int) (end int, kind tokenKind, err error) {
	rest := text[i:]
	switch c := rest[0]; {
	case c == ';':
		return i + 1, semicolon, nil
	case c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r':
		return i + 1, space, nil
	case strings.HasPrefix(rest, "--"):
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			return i + n + 1, space, nil
		}
		return len(text), space, nil
	case strings.HasPrefix(rest, "/*"):
		n := strings.Index(rest[2:], "*/")
		if n < 0 {
			return 0, other, errors.New("a comment is not closed: */ is missing")
		}
		return i + 2 + n + 2, space, nil
	case c == '\'' || c == '"' || c == '`' || c == '[':
		return quoted(text, i)
	}
	return i + 1, other, nil
}

// quoted finds the end of a string or quoted name. A closing quote that is
// doubled stands for itself, but in brackets.
func quoted(text string, i int) (int, tokenKind, error) {
	quote := text[i]
	if quote == '[' {
		quote = ']'
	}
	for j := i + 1; j < len(text); j++ {
		if text[j] != quote {
			continue
		}
		if quote != ']' && j+1 < len(text) && text[j+1] == quote {
			j++
			continue
		}
		return j + 1, other, nil
	}
	return 0, other, fmt.Errorf("a quote is not closed: %c is missing", quote)
}

// first is the first word of the statement, in lower case.
func first(text string) string {
	for i := 0; i < len(text); {
		end, kind, err := token(text, i)
		if err != nil {
			return ""
		}
		if kind == other {
			word := text[i:]
			n := strings.IndexFunc(word, func(r rune) bool { return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') })
			if n < 0 {
				n = len(word)
			}
			return strings.ToLower(word[:max(n, 1)])
		}
		i = end
	}
	return ""
}

// wrap makes the statement compute all of its rows, at most n, before it returns
// the first. The driver heeds a context only until then: a query whose second
// row takes an hour to find could not be stopped. EXPLAIN can't be put in
// parentheses, and computes nothing.
func wrap(statement string, n int) string {
	if first(statement) == "explain" {
		return statement
	}
	return fmt.Sprintf("WITH podstead_result AS MATERIALIZED (SELECT * FROM (\n%s\n) LIMIT %d) SELECT * FROM podstead_result", statement, n)
}
