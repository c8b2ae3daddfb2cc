package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clearSocket makes room for a service on the socket. A service that still
// listens there was left over by an agent that was killed, and by not ending
// then, shows that it hangs: it is ended, with SIGKILL after the grace.
func clearSocket(ctx context.Context, socket string, grace time.Duration) error {
	pid, err := listenerOf(ctx, socket)
	if err != nil {
		return err
	}
	if pid != 0 {
		if err := endLeftover(ctx, socket, pid, grace); err != nil {
			return err
		}
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func endLeftover(ctx context.Context, socket string, pid int, grace time.Duration) error {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !bytes.HasSuffix(command, []byte("\x00unix://"+socket+"\x00")) {
		return fmt.Errorf("%s is in use by process %d, which is no Podman service of this agent: end that, or give another --socket", socket, pid)
	}
	for _, step := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, killLimit}} {
		if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end the Podman service that was left over, process %d: %w", pid, err)
		}
		if gone, err := stopsListening(ctx, socket, pid, step.limit); err != nil || gone {
			return err
		}
	}
	return fmt.Errorf("the Podman service that was left over, process %d, can't be killed", pid)
}

// stopsListening reports whether the process has let go of the socket within a
// time. It is no child, so there is nothing to wait for but the socket.
func stopsListening(ctx context.Context, socket string, pid int, within time.Duration) (bool, error) {
	deadline := time.After(within)
	for {
		if now, err := listenerOf(ctx, socket); err != nil || now != pid {
			return true, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-deadline:
			return false, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// listenerOf is the process that listens on a Unix socket, 0 when none does.
func listenerOf(ctx context.Context, socket string) (pid int, err error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	raw, err := connection.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, asked); err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}
