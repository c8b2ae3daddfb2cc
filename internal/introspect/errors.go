package introspect

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"podstead.io/podstead/internal/pod"
)

var (
	errReadOnly = errors.New("this connection only reads, it can change nothing; to change what runs, edit its manifest, or use podstead apply and podstead delete")
	errNoRows   = errors.New("only SELECT, VALUES, WITH and EXPLAIN are answered here")
	errMemory   = errors.New("memory limit")
)

// errBusy says that no turn came in time.
type errBusy struct{ cause error }

func (e errBusy) Error() string { return e.cause.Error() }

func invalid(err error) error {
	return &pod.Error{Class: pod.Invalid, Op: "query", Err: err}
}

func forbidden(err error) error {
	return &pod.Error{Class: pod.Forbidden, Op: "query", Err: err}
}

func unavailable(err error) error {
	return &pod.Error{Class: pod.Unavailable, Op: "query", Err: err}
}

// explain gives an error its class and says what to do.
func (e *Engine) explain(err error) error {
	var failed *sqlite.Error
	var busy errBusy
	switch {
	case errors.As(err, &busy):
		return &pod.Error{Class: pod.Busy, Op: "query", Err: fmt.Errorf("%d queries are running, which is as many as may: try again (%w)", e.limits.Parallel, busy.cause)}
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable(fmt.Errorf("it was stopped after %s: ask for less, or add a WHERE that an index helps with (%w)", e.limits.Time, err))
	case errors.Is(err, context.Canceled):
		return unavailable(err)
	case errors.Is(err, errMemory):
		return invalid(fmt.Errorf("it was stopped when it had taken %d MiB of memory: ask for less", e.limits.Memory>>20))
	case errors.As(err, &failed):
		return e.explainCode(failed)
	default:
		return invalid(err) // arguments that don't match, and the like
	}
}

// explainCode goes by SQLite's primary result code.
func (e *Engine) explainCode(err *sqlite.Error) error {
	switch err.Code() & 0xff {
	case sqlite3.SQLITE_AUTH:
		return forbidden(fmt.Errorf("it does more than read, or uses a table or function that queries may not: %w", err))
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL:
		return unavailable(err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &pod.Error{Class: pod.Internal, Op: "query", Err: err}
	default:
		return invalid(err)
	}
}
