package api_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/pod"
)

func listen(t *testing.T, path string, gid int) net.Listener {
	t.Helper()
	l, err := api.Listen(path, gid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestSocketBelongsToTheGroup(t *testing.T) {
	for name, want := range map[string]struct {
		gid  int
		mode os.FileMode
	}{
		"owner only": {gid: -1, mode: 0o600},
		"own group":  {gid: os.Getgid(), mode: 0o660},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run", "podstead.sock")
			listen(t, path, want.gid)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != want.mode {
				t.Errorf("mode is %o, want %o", info.Mode().Perm(), want.mode)
			}
			if gid := info.Sys().(*syscall.Stat_t).Gid; want.gid >= 0 && int(gid) != want.gid {
				t.Errorf("group is %d, want %d", gid, want.gid)
			}
			left, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(left) != 1 {
				t.Errorf("the directory holds %v (%v), want the socket alone", left, err)
			}
		})
	}
}

// A socket that a killed agent left behind must not keep the next one from
// starting.
func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	listen(t, path, -1)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestSocketInUseIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen(t, path, -1)
	if _, err := api.Listen(path, -1); !errors.Is(err, pod.Conflict) {
		t.Fatalf("a second listener got %v, want a conflict", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first does not answer any more: %v", err)
	} else {
		_ = conn.Close()
	}
}

func TestFileIsNotReplacedBySocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Listen(path, -1); !errors.Is(err, pod.Invalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q (%v)", text, err)
	}
}

func TestCloseRemovesOnlyItsOwnSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listen(t, path, -1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next := listen(t, path, -1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("closing the first removed the second's socket: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
