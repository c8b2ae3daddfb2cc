package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"podstead.io/podstead/internal/pod"
)

// rootLock keeps a root directory to one agent at a time. The kernel lets go of
// it when the process ends, however it ends.
type rootLock struct{ file *os.File }

// lockRoot takes the lock of a root directory, which must exist. Class Conflict
// when another agent has it; the error names that one's process and what to do.
func lockRoot(rootDir string) (*rootLock, error) {
	path := filepath.Join(rootDir, "podsteadd.lock")
	// The file stays when the lock is let go of: removing it would let two agents
	// lock two files of the same name.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the root directory: %w", err)
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		holder := holderOf(file)
		return nil, errors.Join(&pod.Error{Class: pod.Conflict, Op: "lock the root directory", Object: rootDir, Err: fmt.Errorf(
			"%s uses it: stop that one (systemctl stop podsteadd, or kill its process), or give this one another --root-dir and --socket", holder,
		)}, file.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	if err := writeHolder(file); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), file.Close())
	}
	return &rootLock{file: file}, nil
}

// release lets another agent have the root directory.
func (l *rootLock) release() error { return l.file.Close() }

func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holderOf names the process that the file says holds its lock.
func holderOf(file *os.File) string {
	content, err := io.ReadAll(io.LimitReader(file, 32))
	pid, parsed := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || parsed != nil {
		return "another agent, which is just starting,"
	}
	return fmt.Sprintf("another agent with process ID %d", pid)
}
