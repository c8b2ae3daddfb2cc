package api

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"podstead.io/podstead/internal/pod"
)

// dialTimeout is how long a process at the socket has to accept before it is
// taken for dead. A live one accepts at once: the kernel does it.
const dialTimeout = time.Second

// Listen makes a unix socket at path that its owner and the members of the group
// gid may open (mode 0660; 0600 when gid is below 0).
//
// A socket left behind at path is replaced, but not one that somebody answers:
// that is class Conflict. What is not a socket is class Invalid. Closing the
// listener removes the socket, if it is still this one.
func Listen(path string, gid int) (net.Listener, error) {
	fail := func(class pod.Class, err error) (net.Listener, error) {
		return nil, &pod.Error{Class: class, Op: "listen on", Object: path, Err: err}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fail(pod.Unavailable, err)
	}
	if err := checkFree(path); err != nil {
		return fail(pod.ClassOf(err), err)
	}
	l, err := bindAside(path, gid)
	if err != nil {
		return fail(pod.Unavailable, err)
	}
	return l, nil
}

// checkFree fails when path is in use by another process or is no socket.
func checkFree(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return &pod.Error{Class: pod.Invalid, Op: "replace", Object: path, Err: errors.New("it is not a socket; move it away")}
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	switch {
	case err == nil:
		_ = conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return &pod.Error{Class: pod.Conflict, Op: "replace", Object: path, Err: errors.New("another process answers there; stop it, or choose another --socket")}
}

// bindAside binds in a directory that nobody else can enter, sets owner and
// mode, and only then moves the socket to its place: there is no moment at which
// the wrong people could open it. (umask would do too, but is the whole
// process's.)
func bindAside(path string, gid int) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	aside := filepath.Join(dir, "s")
	inner, err := net.ListenUnix("unix", &net.UnixAddr{Name: aside, Net: "unix"})
	if err != nil {
		return nil, err
	}
	inner.SetUnlinkOnClose(false)
	l := &listener{UnixListener: inner, path: path}
	if err := l.place(aside, gid); err != nil {
		_ = inner.Close()
		return nil, err
	}
	return l, nil
}

// listener removes its socket when it is closed.
type listener struct {
	*net.UnixListener
	path  string
	info  fs.FileInfo // of the socket that was placed
	once  sync.Once
	close error
}

func (l *listener) place(aside string, gid int) error {
	mode := fs.FileMode(0o600)
	if gid >= 0 {
		mode = 0o660
		if err := os.Chown(aside, -1, gid); err != nil {
			return err
		}
	}
	if err := os.Chmod(aside, mode); err != nil {
		return err
	}
	info, err := os.Lstat(aside)
	if err != nil {
		return err
	}
	l.info = info
	return os.Rename(aside, l.path)
}

// Close stops listening and removes the socket unless another has taken its
// place. It may be called more than once.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.close = l.UnixListener.Close()
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.info) {
			l.close = errors.Join(l.close, os.Remove(l.path))
		}
	})
	return l.close
}
