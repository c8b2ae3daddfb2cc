package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the driver
)

// busyTimeoutMS is how long SQLite waits for a program that is not us.
const busyTimeoutMS = 5000

// openSQLite opens a pool of at most n connections of the database/sql driver
// with the parameters given, and makes sure that one can be had.
func openSQLite(driver, path, params string, n int) (*sqlx.DB, error) {
	dsn := fmt.Sprintf("file:%s?_busy_timeout=%d&_error_rc=1&_dqs=0&_pragma=temp_store(memory)&_pragma=trusted_schema(off)&%s",
		(&url.URL{Path: path}).EscapedPath(), busyTimeoutMS, params)
	db, err := sqlx.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	if err := db.Ping(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openWriter opens the connection that writes. One is kept for good: what was
// set on it stays set.
func openWriter(driver, path string) (*sqlx.DB, error) {
	return openSQLite(driver, path, writerSettings, 1)
}

const writerSettings = "_txlock=immediate&_foreign_keys=on&_journal_mode=WAL&_synchronous=NORMAL" +
	"&_pragma=journal_size_limit(4194304)&_pragma=wal_autocheckpoint(1000)"

// openReaders opens the pool that reads. The writer must be open: it owns the
// write-ahead log.
func openReaders(driver, path string) (*pool, error) {
	const n = 4
	db, err := openSQLite(driver, path, "mode=ro&_pragma=cache_size(-1000)", n)
	if err != nil {
		return nil, err
	}
	return newPool(db, n), nil
}

// quickCheck fails when the file is damaged.
func quickCheck(ctx context.Context, db *sqlx.DB) error {
	var result string
	if err := db.GetContext(ctx, &result, `PRAGMA quick_check(1)`); err != nil {
		return err
	}
	if result != "ok" {
		return &damage{result}
	}
	return nil
}

// damage is what quick_check found; faultOf counts it as corruption.
type damage struct{ found string }

func (d *damage) Error() string { return d.found }
