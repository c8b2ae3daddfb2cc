package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podstead.io/podstead/internal/pod"
)

func TestSecondAgentIsRefused(t *testing.T) {
	root := t.TempDir()
	first, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockRoot(root)
	if pod.ClassOf(err) != pod.Conflict {
		t.Fatalf("the second agent got %v, want class Conflict", err)
	}
	for _, want := range []string{root, fmt.Sprintf("process ID %d", os.Getpid()), "--root-dir"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if other, err := lockRoot(t.TempDir()); err != nil {
		t.Errorf("another root directory: %v", err)
	} else if err := other.release(); err != nil {
		t.Error(err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockRoot(root)
	if err != nil {
		t.Fatalf("after the first one went: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

// The file that names the holder can't be written on a full disk, and may be
// removed; the lock holds all the same.
func TestLockNeedsNoFile(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "podsteadd.lock")
	if err := os.Mkdir(file, 0o700); err != nil { // so that it can't be written
		t.Fatal(err)
	}
	lock, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.release() }()
	if _, err = lockRoot(root); pod.ClassOf(err) != pod.Conflict || !strings.Contains(err.Error(), "another agent uses it") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err = lockRoot(root); pod.ClassOf(err) != pod.Conflict {
		t.Errorf("got %v", err)
	}
}

func TestLockNeedsTheRootDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := lockRoot(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want an error that names %s", err, missing)
	}
}
