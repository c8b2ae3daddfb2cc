package store

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"podstead.io/podstead/internal/pod"
)

// fault is what a failure of SQLite means for the store as a whole.
type fault string

const (
	faultNone     fault = ""
	faultFull     fault = "DiskFull"
	faultDisk     fault = "DiskError"
	faultReadOnly fault = "ReadOnly"
	faultCorrupt  fault = "Corrupt"
	faultBusy     fault = "Busy" // another program has the file; passes
)

// faultOf reads SQLite's primary result code.
func faultOf(err error) fault {
	var d *damage
	if errors.As(err, &d) {
		return faultCorrupt
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return faultNone
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return faultFull
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return faultDisk
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return faultReadOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return faultCorrupt
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return faultBusy
	}
	return faultNone
}

// remedy says what the fault is and what to do about it.
func (f fault) remedy(path string) string {
	switch f {
	case faultFull:
		return fmt.Sprintf("the disk that holds %s is full: free some space; what runs is kept running, and writing resumes by itself", path)
	case faultDisk:
		return fmt.Sprintf("%s can't be read or written: check the disk and the directory's permissions", path)
	case faultReadOnly:
		return fmt.Sprintf("%s is read-only: make the file, its directory and the file system writable for podsteadd", path)
	case faultCorrupt:
		return fmt.Sprintf("%s is damaged: restart podsteadd, which restores desired state from its backup and adopts what runs", path)
	case faultBusy:
		return fmt.Sprintf("another program keeps %s locked: end its transaction", path)
	}
	return ""
}

func (f fault) class() pod.Class {
	switch f {
	case faultNone, faultCorrupt:
		return pod.Internal
	default:
		return pod.Unavailable
	}
}

// explain gives an error its class, the operation and, when the file is to
// blame, its name and the remedy. What has a class already is left alone.
func explain(op, path string, err error) error {
	var classed *pod.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &classed):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &pod.Error{Class: pod.Unavailable, Op: op, Err: err}
	}
	f := faultOf(err)
	if text := f.remedy(path); text != "" {
		err = fmt.Errorf("%s (%w)", text, err)
	}
	return &pod.Error{Class: f.class(), Op: op, Err: err}
}

func notFound(op string, object any) error {
	return &pod.Error{Class: pod.NotFound, Op: op, Object: fmt.Sprint(object), Err: errors.New("not found")}
}

func conflict(op string, object any, format string, args ...any) error {
	return &pod.Error{Class: pod.Conflict, Op: op, Object: fmt.Sprint(object), Err: fmt.Errorf(format, args...)}
}
