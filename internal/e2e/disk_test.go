package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, size := range []int{64 << 10, 1 << 10, 1} { // to the last byte
		for err = nil; err == nil; {
			_, err = file.Write(bytes.Repeat([]byte("x"), size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill the disk: %v", err)
		}
	}
}

// TestDiskFull gives the agent's root directory a small disk of its own.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	a := newAgent(t, podmanhost.Start(t))
	mountSmall(t, a.root, "12m")
	a.start(t)
	a.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	was := a.awaitRunning(t, static("web"), "a", "b")
	a.ready(t)

	filler := filepath.Join(a.root, "filler")
	fill(t, filler)
	refused := a.submitUntilRefused(t)
	if !strings.Contains(refused, "full") || !strings.Contains(refused, a.root) {
		t.Errorf("the refusal does not tell of the disk: %s", refused)
	}
	got := a.asked(t, request{path: "/readyz"})
	wantStatus(t, got, http.StatusInternalServerError, "[-]store", "DiskFull", a.root)
	if err := a.healthy("/healthz"); err != nil {
		t.Errorf("a restart would not mend it: %v", err)
	}
	same(t, was, a.live(t, static("web")))
	a.prints(t, "get", "pods")
	a.prints(t, "why", "web")
	// What ends now is restarted when that can be recorded, or later.
	shoot(t, was["b"])
	a.drop(t, newPod("later", sleeper("a")))

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.ready(t)
	a.awaitRunning(t, static("later"), "a")
	is := a.awaitRunning(t, static("web"), "a", "b")
	same(t, was, is, "POD", "a")
	replaced(t, was, is, "b")
	if got := a.submit(t, manifest(t, newPod("last", sleeper("a")))); got.status != http.StatusCreated {
		t.Errorf("with space again a submission is answered %d %s", got.status, got.body)
	}
	a.awaitRunning(t, "last", "a")
}

// submitUntilRefused submits pods that never run, for they have no image, until
// the disk refuses one, and returns the refusal.
func (a *agent) submitUntilRefused(t *testing.T) string {
	t.Helper()
	for i := range 500 {
		p := newPod(fmt.Sprint("filler-", i), asking("a", "docker.io/library/nothing:1", "Never"))
		p.Annotations = map[string]string{"filler": strings.Repeat("f", 100_000)}
		got := a.submit(t, manifest(t, p))
		if got.status == http.StatusServiceUnavailable {
			return string(got.body)
		}
		if got.status != http.StatusCreated {
			t.Fatalf("a submission is answered %d %s", got.status, got.body)
		}
	}
	t.Fatal("the disk takes everything")
	return ""
}
