package api

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/wire"
)

// SQL runs guarded queries.
type SQL interface {
	// Query runs one statement that only reads, within the engine's limits of
	// time, rows and bytes; rows beyond them are left out and Truncated says so.
	// Args are values, or sql.Named ones. Values are nil, int64, float64, string
	// and []byte.
	//
	// Classes: Invalid with SQLite's message, Forbidden for what the guard does
	// not let pass, Busy when as many queries as may are running, and Unavailable
	// with context.DeadlineExceeded when it took too long.
	Query(ctx context.Context, text string, args ...any) (wire.Rows, error)
}

type sqlHandler struct {
	sql     SQL
	maxBody int64
}

// sqlRoutes runs queries: the text itself, or JSON with parameters. The answer
// is an array of objects, or with ?format=rows the columns and the rows.
func sqlRoutes(r chi.Router, h sqlHandler) { r.Post(wire.PathSQL, h.query) }

func (h sqlHandler) query(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("format")
	if format != "" && format != "objects" && format != "rows" {
		writeError(w, r, &pod.Error{Class: pod.Invalid, Op: "read", Object: "?format", Err: errors.New("it is objects or rows")})
		return
	}
	text, args, err := h.read(w, r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	rows, err := h.sql.Query(r.Context(), text, args...)
	if err != nil {
		writeError(w, r, err)
		return
	}
	for _, row := range rows.Rows {
		for i := range row {
			row[i] = jsonable(row[i])
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	if rows.Truncated != "" {
		w.Header().Set(wire.HeaderTruncated, rows.Truncated)
	}
	if format == "rows" {
		if rows.Rows == nil {
			rows.Rows = [][]any{}
		}
		writeJSON(w, http.StatusOK, rows)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(objects(rows))
}

func (h sqlHandler) read(w http.ResponseWriter, r *http.Request) (string, []any, error) {
	rule := bodyRule{types: []string{"text/plain", "application/json", "application/sql"}, limit: h.maxBody}
	body, media, err := rule.read(w, r)
	if err != nil {
		return "", nil, err
	}
	if !utf8.Valid(body) {
		return "", nil, badQuery(errors.New("the body is not UTF-8"))
	}
	q := wire.Query{Query: string(body)}
	if media == "application/json" {
		q = wire.Query{}
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&q); err != nil {
			return "", nil, badQuery(fmt.Errorf("the body is to be {\"query\": …, \"parameters\": …}: %w", err))
		}
	}
	if strings.TrimSpace(q.Query) == "" {
		return "", nil, badQuery(errors.New("there is no query"))
	}
	args, err := arguments(q.Parameters)
	return q.Query, args, err
}

func badQuery(err error) error { return &pod.Error{Class: pod.Invalid, Op: "read query", Err: err} }

// arguments reads parameters, an array or an object.
func arguments(raw json.RawMessage) ([]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, badQuery(fmt.Errorf("parameters: %w", err))
	}
	var args []any
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			args = append(args, argument(e))
		}
	case map[string]any:
		for name, e := range v {
			if name == "" {
				return nil, badQuery(errors.New("a parameter has no name"))
			}
			args = append(args, sql.Named(name, argument(e)))
		}
	default:
		return nil, badQuery(errors.New("parameters must be an array or an object"))
	}
	return args, nil
}

// argument is a JSON value as SQLite has it: true is 1, and an array or object
// is its JSON text, for json_each.
func argument(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String() // beyond what SQLite has a number for
		}
		return f
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case []any, map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Errorf("encode what was decoded: %w", err))
		}
		return string(text)
	default:
		return v
	}
}

// jsonable is a value that JSON can hold; see wire.Rows.
func jsonable(v any) any {
	if f, ok := v.(float64); ok && math.IsInf(f, 0) {
		if f > 0 {
			return "Infinity"
		}
		return "-Infinity"
	}
	return v // a []byte is encoded as base64
}

// objects is the rows as a JSON array, an object a line, with keys in the order
// of the columns.
func objects(rows wire.Rows) []byte {
	keys := make([][]byte, len(rows.Columns))
	for i, name := range unique(rows.Columns) {
		keys[i] = append(mustJSON(name), ':')
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i, row := range rows.Rows {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteByte('{')
		for j, v := range row {
			if j > 0 {
				b.WriteByte(',')
			}
			b.Write(keys[j])
			b.Write(mustJSON(v))
		}
		b.WriteByte('}')
	}
	b.WriteString("]\n")
	return b.Bytes()
}

// unique tells columns of one name apart as SQLite's subqueries do: a, a:1, a:2.
func unique(columns []string) []string {
	taken := map[string]bool{}
	out := make([]string, len(columns))
	for i, name := range columns {
		out[i] = name
		for n := 1; taken[out[i]]; n++ {
			out[i] = name + ":" + strconv.Itoa(n)
		}
		taken[out[i]] = true
	}
	return out
}
