package simulate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"modernc.org/sqlite"
)

// gatedDriver is SQLite behind the gate of the directory that the file is in.
const gatedDriver = "sqlite-gated"

func init() { sql.Register(gatedDriver, gated{}) }

// gates are those of the agents that live, by directory.
var gates sync.Map

// errDead is what an agent gets to see once it has been killed.
var errDead = errors.New("the agent was killed")

// gate stands between an agent and everything outside of it. It counts the
// points at which the agent can be killed: before each statement, and before and
// after each call to the runtime. Once the agent is dead nothing of it gets out
// any more.
type gate struct {
	mu   sync.Mutex // held while a statement runs: one at a time, so that files can be copied
	dead bool
	fuse int // points left to live, 0: for ever
	full bool
	// points and commits so far; commits counts those that wrote.
	points, commits int
	synced          mark // what the disk has for certain

	path  string
	kill  func()        // ends the agent's context
	died  chan struct{} // closed with dead
	onDie func()        // called at that moment, with nothing in progress
}

// point passes if the agent lives on.
func (g *gate) point() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pass()
}

func (g *gate) pass() error {
	if g.dead {
		return errDead
	}
	g.points++
	if g.fuse > 0 {
		if g.fuse--; g.fuse == 0 {
			g.die()
			return errDead
		}
	}
	return nil
}

func (g *gate) die() {
	g.dead = true
	g.onDie()
	close(g.died)
	g.kill()
}

// killNow kills the agent between two points, unless it is dead.
func (g *gate) killNow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.dead {
		g.die()
	}
}

// arm has the agent die at the point with this number from now; 0: never.
func (g *gate) arm(points int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fuse = points
}

func (g *gate) setFull(full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.full = full
}

func (g *gate) counts() (points, commits int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.points, g.commits
}

func (g *gate) isDead() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead
}

type gated struct{}

// Open implements driver.Driver.
func (gated) Open(dsn string) (driver.Conn, error) {
	path, err := url.PathUnescape(strings.TrimPrefix(strings.SplitN(dsn, "?", 2)[0], "file:"))
	if err != nil {
		return nil, err
	}
	found, ok := gates.Load(filepath.Dir(path))
	if !ok {
		return nil, errors.New("no gate for " + path)
	}
	g := found.(*gate)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead { // no point of its own: how many readers there are depends on the scheduler
		return nil, errDead
	}
	inner, err := (&sqlite.Driver{}).Open(dsn)
	if err != nil {
		return nil, err
	}
	return &conn{inner: inner.(sqliteConn), g: g, main: path == g.path}, nil
}

// sqliteConn is what database/sql makes use of in the driver's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type conn struct {
	inner sqliteConn
	g     *gate
	main  bool // of the database itself, not of its backup
	full  bool // its commits reach the disk
	wrote bool // in the transaction that is open
}

// run passes one statement.
func run[T any](c *conn, query string, do func() (T, error)) (T, error) {
	var zero T
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if err := c.g.pass(); err != nil {
		return zero, err
	}
	word, _, _ := strings.Cut(query, " ")
	switch word {
	case "BEGIN":
		c.wrote = false
	case "COMMIT":
		return commit(c, do)
	case "PRAGMA":
		c.full = strings.HasSuffix(query, "synchronous = FULL") || c.full && !strings.HasSuffix(query, "synchronous = NORMAL")
	}
	out, err := do()
	if err != nil {
		return out, err
	}
	if r, ok := any(out).(driver.Result); ok {
		n, err := r.RowsAffected()
		c.wrote = c.wrote || err == nil && n > 0 && word != "PRAGMA" && word != "BEGIN" && word != "ROLLBACK"
	} else if word == "INSERT" {
		c.wrote = true // and returns what it wrote
	}
	return out, nil
}

// commit fails on a full disk as SQLite does: what would have been written is
// rolled back. Finding nothing to write it succeeds.
func commit[T any](c *conn, do func() (T, error)) (T, error) {
	if c.wrote && c.g.full {
		var zero T
		_, err := c.inner.ExecContext(context.Background(), "ROLLBACK", nil)
		return zero, errors.Join(err, errFull)
	}
	out, err := do()
	if err == nil && c.wrote {
		c.g.commits++
		if c.full && c.main {
			c.g.synced = readMark(c.g.path)
		}
	}
	return out, err
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if c.g.dead {
		return nil, errDead
	}
	inner, err := c.inner.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &stmt{Stmt: inner, inner: inner.(sqliteStmt), c: c, query: query}, nil
}

func (c *conn) Close() error {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	return c.inner.Close()
}

func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	inner, err := run(c, "BEGIN", func() (driver.Tx, error) { return c.inner.BeginTx(ctx, o) })
	if err != nil {
		return nil, err
	}
	return &tx{inner: inner, c: c}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return run(c, query, func() (driver.Result, error) { return c.inner.ExecContext(ctx, query, args) })
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return run(c, query, func() (driver.Rows, error) { return c.inner.QueryContext(ctx, query, args) })
}

func (c *conn) Ping(ctx context.Context) error { return c.inner.Ping(ctx) }

func (c *conn) ResetSession(ctx context.Context) error { return c.inner.ResetSession(ctx) }

func (c *conn) IsValid() bool { return c.inner.IsValid() }

type sqliteStmt interface {
	driver.StmtExecContext
	driver.StmtQueryContext
}

type stmt struct {
	driver.Stmt
	inner sqliteStmt
	c     *conn
	query string
}

func (s *stmt) Close() error {
	s.c.g.mu.Lock()
	defer s.c.g.mu.Unlock()
	return s.Stmt.Close()
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return run(s.c, s.query, func() (driver.Result, error) { return s.inner.ExecContext(ctx, args) })
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return run(s.c, s.query, func() (driver.Rows, error) { return s.inner.QueryContext(ctx, args) })
}

type tx struct {
	inner driver.Tx
	c     *conn
}

func (t *tx) Commit() error {
	_, err := run(t.c, "COMMIT", func() (struct{}, error) { return struct{}{}, t.inner.Commit() })
	return err
}

func (t *tx) Rollback() error {
	_, err := run(t.c, "ROLLBACK", func() (struct{}, error) { return struct{}{}, t.inner.Rollback() })
	return err
}
