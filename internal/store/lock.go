package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"podstead.io/podstead/internal/pod"
)

// fileLock keeps a second agent away from the database. SQLite's own locks do
// not: they would let two agents write in turn.
type fileLock struct{ f *os.File }

// lockFile takes the lock beside the database. The file stays when it is
// released, since removing it would race with the next one to take it.
func lockFile(database string) (*fileLock, error) {
	const op = "lock database"
	path := database + ".lock"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &pod.Error{Class: pod.Unavailable, Op: op, Object: database, Err: fmt.Errorf("its directory does not exist: create it, or give another with --root-dir (%w)", err)}
	case errors.Is(err, syscall.ENOSPC):
		return nil, &pod.Error{Class: pod.Unavailable, Op: op, Object: database, Err: fmt.Errorf("%s (%w)", faultFull.remedy(database), err)}
	case err != nil:
		return nil, &pod.Error{Class: pod.Unavailable, Op: op, Object: database, Err: fmt.Errorf("%s (%w)", faultReadOnly.remedy(database), err)}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := readHolder(f)
		return nil, errors.Join(conflict(op, database, "it is in use by %s: stop that one, or give this one another --root-dir (%w)", holder, err), f.Close())
	}
	// Only for the message above: a full disk is no reason to fail here.
	if f.Truncate(0) == nil {
		f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0) //nolint:errcheck // see above
	}
	return &fileLock{f}, nil
}

func readHolder(f *os.File) string {
	buf := make([]byte, 16)
	n, _ := f.ReadAt(buf, 0) //nolint:errcheck // what was read tells
	if pid := strings.TrimSpace(string(buf[:n])); pid != "" {
		return "process " + pid
	}
	return "another process"
}

func (l *fileLock) release() error { return l.f.Close() }
