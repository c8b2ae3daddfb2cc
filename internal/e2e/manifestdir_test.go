package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// failure is what the agent says is wrong with its directory; empty: nothing.
func (a *agent) failure(t *testing.T) string {
	t.Helper()
	said, err := a.one(`SELECT coalesce(last_error, '') FROM sources WHERE kind = 'directory'`)
	if err != nil {
		t.Fatal(err)
	}
	return said.(string)
}

func (a *agent) awaitFailure(t *testing.T, words string) {
	t.Helper()
	eventually(t, "the source says what is wrong with its directory", func() error {
		said := a.failure(t)
		return unless(strings.Contains(said, words) && (words != "" || said == ""), "it says %q", said)
	})
}

// TestManifestDirectoryMissing takes the directory away and gives it back, under a
// running agent and before it starts. What runs stays the processes that it was,
// the source says what is wrong, and what is submitted meanwhile runs: no source
// waits for another (kubernetes#59275).
func TestManifestDirectoryMissing(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--sync-frequency", "5s", "--file-check-frequency", "2s")
	f := a.startFleet(t)
	away := a.manifests + ".away"
	move := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	meanwhile := func(t *testing.T) {
		t.Helper()
		a.awaitFailure(t, a.manifests)
		a.awaitFailure(t, "--pod-manifest-path")
		wantStatus(t, a.submit(t, manifest(t, newPod("meanwhile", sleeper("a")))), 201)
		a.awaitRunning(t, "meanwhile", "a")
		wantStatus(t, a.withdraw(t, "meanwhile"), 200)
		a.awaitGone(t, "meanwhile")
		same(t, f.web, a.live(t, static("web")))
	}

	t.Run("while the agent runs", func(t *testing.T) {
		move(t, a.manifests, away)
		meanwhile(t)
		move(t, away, a.manifests)
		a.awaitFailure(t, "")
		f.check(t, a)
	})
	t.Run("when the agent starts", func(t *testing.T) {
		a.kill()
		move(t, a.manifests, away)
		a.start(t)
		meanwhile(t)
		move(t, away, a.manifests)
		a.awaitFailure(t, "")
		f.check(t, a)
	})
	t.Run("when the agent starts without its database", func(t *testing.T) {
		a.kill()
		a.removeFiles(t, database)
		move(t, a.manifests, away)
		a.start(t)
		meanwhile(t)
		move(t, away, a.manifests)
		a.awaitFailure(t, "")
		f.check(t, a)
	})
	t.Run("deleted, and restored from elsewhere", func(t *testing.T) {
		if err := errors.Join(os.CopyFS(away, os.DirFS(a.manifests)), os.RemoveAll(a.manifests)); err != nil {
			t.Fatal(err)
		}
		meanwhile(t)
		move(t, away, a.manifests)
		a.awaitFailure(t, "")
		f.check(t, a)
	})
	t.Run("back without one file", func(t *testing.T) {
		move(t, a.manifests, away)
		a.awaitFailure(t, a.manifests)
		if err := os.Remove(away + "/job.yaml"); err != nil {
			t.Fatal(err)
		}
		move(t, away, a.manifests)
		a.awaitGone(t, static("job"))
		same(t, f.web, a.live(t, static("web")))
	})
}

// TestManifestDirectoryReplaced has the directory come back without its files: an
// unmounted disk, a directory that is made anew and then filled. That is no wish to
// have none of the pods until it has been so for three checks.
func TestManifestDirectoryReplaced(t *testing.T) {
	t.Parallel()
	a := newAgent(t, podmanhost.Start(t), "--file-check-frequency", "5s")
	disk := filepath.Join(a.host.Dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func() {
		t.Helper()
		if err := unix.Mount(disk, a.manifests, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	unmount := func() {
		t.Helper()
		if err := unix.Unmount(a.manifests, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) {
		t.Helper()
		content := manifest(t, newPod(name, sleeper("a"), sleeper("b")))
		if err := os.WriteFile(filepath.Join(disk, name+".yaml"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	write("two")
	mount()
	a.start(t)
	one, two := a.awaitRunning(t, static("one"), "a", "b"), a.awaitRunning(t, static("two"), "a", "b")
	untouched := func(t *testing.T) {
		t.Helper()
		same(t, one, a.awaitRunning(t, static("one"), "a", "b"))
		same(t, two, a.awaitRunning(t, static("two"), "a", "b"))
	}
	settled := func(t *testing.T) {
		t.Helper()
		a.awaitFailure(t, "")
		a.ready(t)
		untouched(t)
	}

	t.Run("unmounted and mounted again", func(t *testing.T) {
		unmount()
		a.awaitFailure(t, "one.yaml")
		untouched(t)
		mount()
		settled(t)
	})
	t.Run("unmounted when the agent starts", func(t *testing.T) {
		a.kill()
		unmount()
		a.start(t)
		a.awaitFailure(t, "missing or empty")
		untouched(t)
		mount()
		settled(t)
	})
	t.Run("made anew and then filled", func(t *testing.T) {
		unmount() // what is below is an empty directory, and is made anew
		if err := errors.Join(os.Remove(a.manifests), os.Mkdir(a.manifests, 0o755)); err != nil {
			t.Fatal(err)
		}
		a.awaitFailure(t, "one.yaml")
		untouched(t)
		a.drop(t, newPod("one", sleeper("a"), sleeper("b")))
		a.drop(t, newPod("two", sleeper("a"), sleeper("b")))
		settled(t)
	})
	t.Run("one file deleted", func(t *testing.T) {
		a.remove(t, "two.yaml")
		a.awaitGone(t, static("two"))
		same(t, one, a.live(t, static("one")))
	})
	t.Run("empty for good", func(t *testing.T) {
		if err := errors.Join(os.RemoveAll(a.manifests), os.Mkdir(a.manifests, 0o755)); err != nil {
			t.Fatal(err)
		}
		a.awaitFailure(t, "one.yaml")
		same(t, one, a.live(t, static("one")))
		a.awaitGone(t, static("one"))
		a.awaitFailure(t, "")
	})
}
