package store

import (
	"context"
	"errors"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
)

// conn is one connection with its prepared statements. Preparing costs most of
// what a short query costs, so each text is prepared once. database/sql would
// do that too, but not for a pool of one whose connection a transaction holds.
type conn struct {
	raw        *sqlx.Conn
	statements map[string]*sqlx.Stmt
}

func connect(ctx context.Context, db *sqlx.DB) (*conn, error) {
	raw, err := db.Connx(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, statements: map[string]*sqlx.Stmt{}}, nil
}

// connectWriter is connect for the connection that writes. It has the files of the
// write-ahead log stay when the database is closed: on a disk that is full by then
// the next one could not make them, and would not open (SQLITE_IOERR_SHMSIZE).
func connectWriter(ctx context.Context, db *sqlx.DB) (*conn, error) {
	c, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	err = c.raw.Raw(func(driver any) error {
		file, ok := driver.(sqlite.FileControl)
		if !ok { // a test's own driver around it
			return nil
		}
		_, err := file.FileControlPersistWAL("main", 1)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// prepared is for texts that are constants: they are kept for good.
func (c *conn) prepared(ctx context.Context, query string) (*sqlx.Stmt, error) {
	if s := c.statements[query]; s != nil {
		return s, nil
	}
	s, err := c.raw.PreparexContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.statements[query] = s
	return s, nil
}

func (c *conn) exec(ctx context.Context, query string) error {
	s, err := c.prepared(ctx, query)
	if err != nil {
		return err
	}
	_, err = s.ExecContext(ctx)
	return err
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// pool hands out connections that read. One that failed is not used again.
type pool struct {
	db    *sqlx.DB
	slots chan struct{}
	idle  chan *conn
}

func newPool(db *sqlx.DB, n int) *pool {
	return &pool{db: db, slots: make(chan struct{}, n), idle: make(chan *conn, n)}
}

// use calls fn with a connection of its own.
func (p *pool) use(ctx context.Context, fn func(*conn) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var c *conn
	select {
	case c = <-p.idle:
	default:
		var err error
		if c, err = connect(ctx, p.db); err != nil {
			return err
		}
	}
	sound := false
	defer func() {
		if sound {
			p.idle <- c
		} else {
			c.close() //nolint:errcheck // it only read
		}
	}()
	if err := c.exec(ctx, `BEGIN`); err != nil {
		return err
	}
	err := fn(c)
	// The caller's context may have ended; this must run all the same, and
	// touches no file.
	sound = c.exec(context.WithoutCancel(ctx), `ROLLBACK`) == nil
	return err
}

func (p *pool) close() error {
	var errs []error
	for {
		select {
		case c := <-p.idle:
			errs = append(errs, c.close())
		default:
			return errors.Join(append(errs, p.db.Close())...)
		}
	}
}
