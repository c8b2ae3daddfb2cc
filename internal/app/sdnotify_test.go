package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// notifySocket stands in for systemd and returns where its messages come.
func notifySocket(t *testing.T) <-chan string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	messages, done := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1024)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			messages <- string(buffer[:n])
		}
	}()
	t.Cleanup(func() { _ = socket.Close(); <-done })
	return messages
}

func TestServiceManagerIsTold(t *testing.T) {
	messages := notifySocket(t)
	m := serviceManager{slog.New(slog.DiscardHandler)}
	m.ready("12 pods")
	m.stopping()
	for _, want := range []string{"READY=1\nSTATUS=12 pods", "STOPPING=1"} {
		if got := <-messages; got != want {
			t.Errorf("systemd got %q, want %q", got, want)
		}
	}
}

func TestWatchdogPingsOnlyWhileAlive(t *testing.T) {
	messages := notifySocket(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")
	var log strings.Builder
	m := serviceManager{slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	health, done := make(chan error), make(chan error, 1)
	go func() { done <- m.watchdog(ctx, func(context.Context) error { return <-health }) }()
	stuck := errors.New("stuck")
	for _, state := range []error{nil, nil, stuck, stuck, nil} {
		health <- state
	}
	for range 3 {
		if got := <-messages; got != "WATCHDOG=1" {
			t.Errorf("systemd got %q", got)
		}
	}
	cancel()
	select {
	case health <- nil:
	case err := <-done:
		done <- err
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case extra := <-messages:
		t.Errorf("systemd got %q as well", extra)
	default:
	}
	if n := strings.Count(log.String(), "stuck"); n != 2 { // message and error of one line
		t.Errorf("the log has it %d times, want once: %s", n, &log)
	}
}

func TestWatchdogLimitsTheCheck(t *testing.T) {
	notifySocket(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")
	m := serviceManager{slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := m.watchdog(ctx, func(checking context.Context) error {
		<-checking.Done()
		if ctx.Err() == nil && !errors.Is(checking.Err(), context.DeadlineExceeded) {
			t.Error("the check was ended by something else than its deadline")
		}
		cancel()
		return checking.Err()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNoServiceManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	m := serviceManager{slog.New(slog.NewTextHandler(failingWriter{t}, nil))}
	m.ready("")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.watchdog(ctx, func(context.Context) error { t.Error("checked"); return nil }); err != nil {
		t.Error(err)
	}
}

type failingWriter struct{ t *testing.T }

func (w failingWriter) Write(p []byte) (int, error) {
	w.t.Errorf("logged: %s", p)
	return len(p), nil
}
