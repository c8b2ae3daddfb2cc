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

func TestLockNamesNobodyWhenTheFileDoesNot(t *testing.T) {
	root := t.TempDir()
	lock, err := lockRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.release() }()
	if err := os.Truncate(filepath.Join(root, "podsteadd.lock"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err = lockRoot(root); pod.ClassOf(err) != pod.Conflict || !strings.Contains(err.Error(), "another agent, which is just starting,") {
		t.Errorf("got %v", err)
	}
}

func TestLockNeedsTheRootDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := lockRoot(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want an error that names %s", err, missing)
	}
}
