package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// written is the state of the agent's files.
func (a *agent) written(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, name := range []string{database[0], database[1], backup[0], backup[1], backup[3]} {
		file, err := os.Open(filepath.Join(a.root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := file.Stat()
		sum := sha256.New()
		_, copied := io.Copy(sum, file)
		if err := errors.Join(err, copied, file.Close()); err != nil {
			t.Fatal(err)
		}
		state[name] = fmt.Sprintf("%d bytes of %s, sum %x", info.Size(), info.ModTime().Format(time.RFC3339Nano), sum.Sum(nil)[:6])
	}
	return state
}

// restTime is how long nothing may be written. Files are rechecked, Podman is
// listed and the URL polled several times meanwhile.
const restTime = 20 * time.Second

// TestNothingIsWrittenAtRest compares the agent's files: writes at rest wear out
// flash (k3s#11313, k3s#5042, microk8s#3064).
func TestNothingIsWrittenAtRest(t *testing.T) {
	t.Parallel()
	a, site := startWithURL(t, "--sync-frequency", "3s", "--file-check-frequency", "3s")
	a.drop(t, newPod("one", sleeper("a"), sleeper("b")))
	a.drop(t, newPod("two", sleeper("a")))
	site.set(manifest(t, newPod("three", sleeper("a"))))
	a.awaitRunning(t, static("one"), "a", "b")
	a.awaitRunning(t, static("two"), "a")
	a.awaitRunning(t, static("three"), "a")
	a.ready(t)

	// What the pods' start is still to write has been written when nothing has
	// changed for longer than listings and the confirmation of the directory take.
	var before map[string]string
	since := time.Now()
	eventually(t, "the files are at rest", func() error {
		now := a.written(t)
		if !maps.Equal(before, now) {
			before, since = now, time.Now()
		}
		return unless(time.Since(since) > 12*time.Second, "written %s ago", time.Since(since))
	})
	if before[database[0]] == "" || before[backup[0]] == "" {
		t.Fatalf("the agent has no such files: %v", before)
	}
	asked, _, _ := site.counts()
	always(t, restTime, "nothing is written", func() error {
		now := a.written(t)
		return unless(maps.Equal(before, now), "the files were %v and are %v", before, now)
	})
	if now, _, _ := site.counts(); now < asked+10 {
		t.Errorf("the URL was polled %d times only", now-asked)
	}
}
