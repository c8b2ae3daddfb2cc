package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"podstead.io/podstead/internal/pod"
)

// openFile is a file that is held open, to be told from one that has come to its
// path since.
type openFile struct {
	path string
	info fs.FileInfo
}

func statOpen(path string) (openFile, error) {
	info, err := os.Stat(path)
	return openFile{path, info}, err
}

// there reports whether the path still names the file. One that can't be looked
// at is taken to be there.
func (f openFile) there() bool {
	now, err := os.Stat(f.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(f.info, now)
}

// Intact fails when someone has removed or replaced the database while it is
// open: what is written to it then is lost with the process. Class NotFound: the
// backup has all of desired state, so that a restart mends it. Class Unavailable:
// it has not, and the process is all that remembers what was acknowledged.
func (s *Store) Intact(ctx context.Context) error {
	if s.file.there() {
		return nil
	}
	lost := &pod.Error{Class: pod.NotFound, Op: "use database", Object: s.path, Err: errors.New("it was removed or replaced while podsteadd runs: a restart restores desired state from the backup")}
	if err := s.backup.flush(ctx); err != nil {
		lost.Class = pod.Unavailable
		lost.Err = fmt.Errorf("it was removed or replaced while podsteadd runs; do not stop podsteadd before the backup can be written: %w", err)
	}
	return lost
}
