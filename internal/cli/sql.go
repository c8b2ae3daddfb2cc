package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"podstead.io/podstead/internal/wire"
)

func newSQL(s *session) *cobra.Command {
	var file string
	var params []string
	cmd := &cobra.Command{
		Use:   "sql QUERY | -f FILE",
		Short: "Ask the agent's database",
		Long: `Runs one SELECT in the agent, read-only and within limits of time and size.

The views are pods, containers, images, why and drift; the tables behind them
can be read as well. "SELECT name, sql FROM sqlite_schema" lists all.`,
		Example: `  podstead sql "select pod, container, state, restarts from containers"
  podstead sql "select at, event, cause, detail from transitions where pod = :pod" --param pod=web
  podstead sql -o csv -f report.sql`,
		Args: cobra.MaximumNArgs(1),
	}
	format := addOutput(cmd, "table", "table", "json", "csv")
	cmd.Flags().StringVarP(&file, "file", "f", "", "read the query from a file; - is standard input")
	cmd.Flags().StringArrayVar(&params, "param", nil, "NAME=VALUE for :NAME in the query, or 1=VALUE for ?1; a JSON number, true, false or null is that, anything else text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query, err := s.queryText(cmd.Context(), args, file)
		if err != nil {
			return err
		}
		parameters, err := parseParams(params)
		if err != nil {
			return err
		}
		q := wire.Query{Query: query, Parameters: parameters}
		if format.value == "json" {
			a, err := s.client().sql(cmd.Context(), q, "objects")
			if err != nil {
				return err
			}
			s.warnTruncated(a.header.Get(wire.HeaderTruncated))
			_, err = s.Stdout.Write(a.body)
			return err
		}
		a, err := s.client().sql(cmd.Context(), q, "rows")
		if err != nil {
			return err
		}
		rows, err := decodeRows(a.body)
		if err != nil {
			return err
		}
		s.warnTruncated(rows.Truncated)
		if format.value == "csv" {
			return printCSV(s.Stdout, rows)
		}
		return printRows(s.Stdout, rows)
	}
	return cmd
}

func (s *session) queryText(ctx context.Context, args []string, file string) (string, error) {
	switch {
	case len(args) == 1 && file == "":
		return args[0], nil
	case len(args) == 0 && file != "":
		return s.readInput(ctx, file)
	}
	return "", fmt.Errorf("give either a query or -f FILE")
}

// parseParams makes an array of parameters named 1, 2, 3…, and else an object.
func parseParams(params []string) (json.RawMessage, error) {
	if len(params) == 0 {
		return nil, nil
	}
	values := map[string]any{}
	for _, p := range params {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--param %s: it must be NAME=VALUE", p)
		}
		values[strings.TrimLeft(name, ":@$?")] = paramValue(value)
	}
	var list []any
	for i := range len(values) {
		v, ok := values[strconv.Itoa(i+1)]
		if !ok {
			return json.Marshal(values)
		}
		list = append(list, v)
	}
	return json.Marshal(list)
}

func paramValue(text string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) == nil && !dec.More() {
		switch v.(type) {
		case json.Number, bool, nil:
			return v
		}
	}
	return text
}

// text is a cell as it is shown; NULL is empty, as in SQLite's own shell.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case json.Number:
		return v.String()
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

func printRows(w io.Writer, rows wire.Rows) error {
	t := newTable(w)
	t.line(rows.Columns)
	for _, r := range rows.Rows {
		cells := make([]string, len(r))
		for i, v := range r {
			cells[i] = text(v)
		}
		t.row(cells...)
	}
	return t.flush()
}

func printCSV(w io.Writer, rows wire.Rows) error {
	out := csv.NewWriter(w)
	if err := out.Write(rows.Columns); err != nil {
		return err
	}
	for _, r := range rows.Rows {
		cells := make([]string, len(r))
		for i, v := range r {
			cells[i] = text(v)
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// objects is the rows as a JSON array of objects with the keys in the order of
// the columns.
func objects(rows wire.Rows) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, r := range rows.Rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('{')
		for j, v := range r {
			if j > 0 {
				b.WriteByte(',')
			}
			b.Write(encoded(rows.Columns[j]))
			b.WriteByte(':')
			b.Write(encoded(v))
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
	return b.Bytes()
}

// encoded is the JSON of a cell or column name, which came as JSON.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", v, err))
	}
	return b
}
