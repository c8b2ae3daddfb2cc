package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"podstead.io/podstead/internal/pod"
)

// rootLock keeps a root directory to one agent at a time. The kernel lets go of
// it when the process ends, however it ends.
type rootLock struct{ dir *os.File }

// lockRoot takes the lock of a root directory, which must exist. Class Conflict
// when another agent has it; the error names that one's process and what to do.
//
// The lock is on the directory itself: a file in it could not be made on a full
// disk, and might be removed.
func lockRoot(rootDir string) (*rootLock, error) {
	dir, err := os.Open(rootDir)
	if err != nil {
		return nil, fmt.Errorf("lock the root directory: %w", err)
	}
	switch err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(&pod.Error{Class: pod.Conflict, Op: "lock the root directory", Object: rootDir, Err: fmt.Errorf(
			"%s uses it: stop that one (systemctl stop podsteadd, or kill its process), or give this one another --root-dir and --socket", holderOf(rootDir),
		)}, dir.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", rootDir, err), dir.Close())
	}
	// Only for the message above: a full disk is no reason not to start.
	_ = os.WriteFile(holderFile(rootDir), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return &rootLock{dir: dir}, nil
}

// release lets another agent have the root directory.
func (l *rootLock) release() error { return l.dir.Close() }

func holderFile(rootDir string) string { return filepath.Join(rootDir, "podsteadd.lock") }

// holderOf names the process that says it holds the directory's lock.
func holderOf(rootDir string) string {
	content, err := os.ReadFile(holderFile(rootDir))
	pid, parsed := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || parsed != nil {
		return "another agent"
	}
	return fmt.Sprintf("another agent with process ID %d", pid)
}
