// Package introspect runs SQL that only reads, over connections of its own, for
// anyone who may ask: what a statement may do is decided by SQLite's authorizer
// while it is compiled, and what it may cost is bounded in time, rows, bytes and
// memory. SQL can switch query_only off and mode=ro still permits ATTACH and
// VACUUM INTO, so neither is the guard.
//
// The package owns a goroutine per query in progress, which watches memory and
// ends with it. SQL text goes in; rows come out.
package introspect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Limits bound one query. A zero field means its default.
type Limits struct {
	Time     time.Duration // 2 s, waiting for a turn included
	Rows     int           // 10,000
	Bytes    int           // of values; 8 MiB
	Memory   int64         // growth of the process while it runs; 64 MiB
	Parallel int           // queries at a time; 2
}

func (l Limits) withDefaults() Limits {
	if l.Time == 0 {
		l.Time = 2 * time.Second
	}
	if l.Rows == 0 {
		l.Rows = 10_000
	}
	if l.Bytes == 0 {
		l.Bytes = 8 << 20
	}
	if l.Memory == 0 {
		l.Memory = 64 << 20
	}
	if l.Parallel == 0 {
		l.Parallel = 2
	}
	return l
}

// What Result.Truncated says.
const (
	truncatedRows  = "rows"
	truncatedBytes = "bytes"
)

// Options are where the database is and what a query may cost.
type Options struct {
	// Path is the database file, which must be open for writing elsewhere and
	// migrated: the tables that can be read are those it has at the first query.
	Path   string
	Limits Limits
}

// Result is what a query found.
type Result struct {
	Columns []string
	// Rows have nil, int64, float64, string and []byte.
	Rows [][]any
	// Truncated names the limit that cut the rows short, rows or bytes; empty
	// when they are all there.
	Truncated string
}

// Engine answers queries. Its methods may be called from any goroutine.
type Engine struct {
	db     *sql.DB
	limits Limits
	turns  chan struct{}
	guard  *guard
}

// New makes an engine. It opens the file at the first query.
func New(o Options) (*Engine, error) {
	if o.Path == "" {
		return nil, errors.New("introspect: Path is required")
	}
	limits := o.Limits.withDefaults()
	e := &Engine{limits: limits, turns: make(chan struct{}, limits.Parallel), guard: &guard{}}
	d := &sqlite.Driver{}
	d.RegisterConnectionHook(e.guard.install)
	if err := registerBounded(d); err != nil {
		return nil, err
	}
	e.db = sql.OpenDB(connector{driver: d, dsn: dsn(o.Path)})
	e.db.SetMaxOpenConns(limits.Parallel)
	return e, nil
}

func dsn(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&_defensive=1&_dqs=0&_error_rc=1&_query_only=1&_busy_timeout=1000" +
		"&_pragma=temp_store(memory)&_pragma=trusted_schema(off)&_pragma=cell_size_check(on)&_pragma=cache_size(-500)"
}

// connector opens connections through a driver of its own, so that its hook is
// on every connection and on none of anybody else's.
type connector struct {
	driver *sqlite.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

func (c connector) Driver() driver.Driver { return c.driver }

// Close waits for queries in progress, none of which outlasts its limit.
func (e *Engine) Close() error {
	for range cap(e.turns) {
		e.turns <- struct{}{}
	}
	return e.db.Close()
}

// maxValue is the size of the largest value and row: a pod's manifest may have
// 1 MiB (manifest.Limits), and its status comes on top.
const maxValue = 5 << 18

// sqliteLimits are set on every connection before it is used.
var sqliteLimits = map[int]int{
	sqlite3.SQLITE_LIMIT_ATTACHED:            0,
	sqlite3.SQLITE_LIMIT_LENGTH:              maxValue,
	sqlite3.SQLITE_LIMIT_SQL_LENGTH:          64 << 10,
	sqlite3.SQLITE_LIMIT_COLUMN:              256,
	sqlite3.SQLITE_LIMIT_EXPR_DEPTH:          100,
	sqlite3.SQLITE_LIMIT_COMPOUND_SELECT:     50,
	sqlite3.SQLITE_LIMIT_VDBE_OP:             250_000,
	sqlite3.SQLITE_LIMIT_FUNCTION_ARG:        100,
	sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 60,
	sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER:     1000,
	sqlite3.SQLITE_LIMIT_WORKER_THREADS:      0,
}

// Query runs one statement. Args are values for ? or ?1, or sql.Named ones for
// :name, @name and $name. Rows beyond the limits are left out, and Truncated
// says which limit it was.
//
// Class Invalid: SQLite does not accept the statement, or it takes more memory
// than it may. Class Forbidden: it does more than read. Class Busy: those before
// it took too long. Class Unavailable: it took too long itself (then
// context.DeadlineExceeded too), or the database can't be read.
func (e *Engine) Query(ctx context.Context, text string, args ...any) (Result, error) {
	statement, err := single(text)
	if err != nil {
		return Result{}, invalid(err)
	}
	if writes[first(statement)] {
		return Result{}, forbidden(errReadOnly)
	}
	var out Result
	err = e.use(ctx, func(ctx context.Context, conn *sql.Conn) error {
		columns, err := compile(conn, statement)
		if err != nil {
			return err
		}
		out, err = e.run(ctx, conn, wrap(statement, e.limits.Rows+1), columns, args)
		return err
	})
	if err != nil {
		return Result{}, e.explain(err)
	}
	return out, nil
}

// use calls fn with a connection when it is its turn, and ends its context when
// its time or memory is used up.
func (e *Engine) use(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.limits.Time)
	defer cancel()
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		return errBusy{ctx.Err()}
	}
	ctx, stop := watchMemory(ctx, e.limits.Memory)
	defer stop()
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for id, n := range sqliteLimits {
		if _, err := sqlite.Limit(conn, id, n); err != nil {
			return err
		}
	}
	if err = e.guard.learn(ctx, conn); err == nil {
		err = fn(ctx, conn)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// compile has SQLite compile the statement by itself, so that what it says of it
// is about the text as it was given.
func compile(conn *sql.Conn, statement string) ([]string, error) {
	var columns []string
	err := conn.Raw(func(c any) error {
		info, err := c.(interface {
			ColumnInfo(query string) ([]sqlite.ColumnInfo, error)
		}).ColumnInfo(statement)
		for _, i := range info {
			columns = append(columns, i.Name)
		}
		return err
	})
	if err == nil && len(columns) == 0 {
		err = errNoRows
	}
	return columns, err
}

func (e *Engine) run(ctx context.Context, conn *sql.Conn, statement string, columns []string, args []any) (Result, error) {
	out := Result{Columns: columns, Rows: [][]any{}}
	rows, err := conn.QueryContext(ctx, statement, args...)
	if err != nil {
		return out, err
	}
	defer rows.Close()
	size := 0
	for rows.Next() {
		if len(out.Rows) == e.limits.Rows {
			out.Truncated = truncatedRows
			return out, nil
		}
		row := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return out, err
		}
		if size += plain(row); size > e.limits.Bytes {
			out.Truncated = truncatedBytes
			return out, nil
		}
		out.Rows = append(out.Rows, row)
	}
	return out, rows.Err()
}

// plain turns what the driver took for a time back into text, and returns the
// size of the row in bytes.
func plain(row []any) int {
	size := 0
	for i, v := range row {
		size += 16
		switch v := v.(type) {
		case time.Time:
			row[i] = v.UTC().Format("2006-01-02T15:04:05.000000Z")
			size += 27
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	return size
}
