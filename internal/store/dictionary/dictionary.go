// Package dictionary reads a database's schema with the comments that its SQL
// carries, and writes schema/ from it. It owns no goroutine.
package dictionary

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver

	"podstead.io/podstead/migrations"
)

// Table is a table or view.
type Table struct {
	Name    string
	View    bool
	Comment string // what one row is
	Columns []Column
	SQL     string
	Indexes []string // their SQL
}

// Column is a column of a table or view.
type Column struct {
	Name    string `db:"name"`
	Type    string `db:"type"` // empty for computed columns of views
	NotNull bool   `db:"notnull"`
	Key     int    `db:"pk"` // place in the primary key, from 1; 0: not in it
	Comment string `db:"comment"`
}

// Select runs a query and scans all rows into dest, as sqlx does.
type Select func(ctx context.Context, dest any, query string, args ...any) error

// Read lists views, then tables, by name. Those of SQLite and of the migration
// tool are left out.
func Read(ctx context.Context, sel Select) ([]Table, error) {
	var objects []struct {
		Type  string `db:"type"`
		Name  string `db:"name"`
		Table string `db:"tbl_name"`
		SQL   string `db:"sql"`
	}
	err := sel(ctx, &objects, `SELECT type, name, tbl_name, sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND tbl_name NOT LIKE 'sqlite_%' AND tbl_name <> 'goose_db_version' ORDER BY type = 'view' DESC, name`)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	var tables []Table
	for _, o := range objects {
		if o.Type != "table" && o.Type != "view" {
			continue
		}
		t := Table{Name: o.Name, View: o.Type == "view", SQL: o.SQL, Comment: rowComment(o.SQL)}
		if err := sel(ctx, &t.Columns, `SELECT name, type, "notnull", pk, '' AS comment FROM pragma_table_xinfo(?)`, o.Name); err != nil {
			return nil, fmt.Errorf("read columns of %s: %w", o.Name, err)
		}
		for i := range t.Columns {
			t.Columns[i].Comment = columnComment(o.SQL, t.Columns[i].Name, t.View)
		}
		for _, i := range objects {
			if i.Type == "index" && i.Table == o.Name {
				t.Indexes = append(t.Indexes, i.SQL)
			}
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// rowComment is the first comment line within the statement.
func rowComment(sql string) string {
	for line := range strings.Lines(sql) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok {
			return text
		}
	}
	return ""
}

var (
	tableColumn = regexp.MustCompile(`^\s*"?([a-z_]+)"? +(?:TEXT|INTEGER|REAL|BLOB)\b.*?-- (.*)$`)
	viewColumn  = regexp.MustCompile(`^.*\bAS "?([a-z_]+)"?,? -- (.*)$`)
	onlyComment = regexp.MustCompile(`^\s*-- (.*)$`)
)

// columnComment is the comment on the column's line, with the comment lines
// that follow it.
func columnComment(sql, column string, view bool) string {
	pattern := tableColumn
	if view {
		pattern = viewColumn
	}
	var text []string
	for line := range strings.Lines(sql) {
		line = strings.TrimRight(line, "\n")
		if len(text) > 0 {
			more := onlyComment.FindStringSubmatch(line)
			if more == nil {
				break
			}
			text = append(text, more[1])
			continue
		}
		if m := pattern.FindStringSubmatch(line); m != nil && m[1] == column {
			text = append(text, m[2])
		}
	}
	return strings.Join(text, " ")
}

// Migrated reads the schema that the migrations make.
func Migrated(ctx context.Context) ([]Table, error) {
	db, err := sqlx.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	p, err := goose.NewProvider(goose.DialectSQLite3, db.DB, migrations.FS, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, err
	}
	if _, err := p.Up(ctx); err != nil {
		return nil, err
	}
	return Read(ctx, db.SelectContext)
}
