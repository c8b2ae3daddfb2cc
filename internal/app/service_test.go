package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// quick is patient enough for a busy machine and no more than that.
var quick = serviceTiming{
	start: time.Minute, poll: 5 * time.Millisecond,
	ping: 20 * time.Millisecond, pingLimit: 5 * time.Second, hung: 30 * time.Second,
	stop:    time.Second,
	backoff: 10 * time.Millisecond, maxBackoff: 50 * time.Millisecond, steady: time.Minute,
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually waits for something that only polling can see.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// privatePodman makes every podman of this test use storage of its own, with no
// service running.
func privatePodman(t *testing.T) *podmanhost.Host {
	t.Helper()
	h := podmanhost.Start(t)
	h.Stop()
	for _, variable := range h.Env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	return h
}

// startOwnService runs a podmanService until the returned function is called,
// which says how long it took to stop.
func startOwnService(t *testing.T, dir string, timing serviceTiming) (*podmanService, *logBuffer, func() time.Duration) {
	t.Helper()
	said := &logBuffer{}
	s := newPodmanService(dir, timing, slog.New(slog.NewTextHandler(said, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.run(ctx); close(done) }()
	stop := sync.OnceValue(func() time.Duration {
		began := time.Now()
		cancel()
		<-done
		return time.Since(began)
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("the agent logged:\n%s", said)
		}
	})
	waiting, stopWaiting := context.WithTimeout(ctx, time.Minute)
	defer stopWaiting()
	if err := s.ready(waiting); err != nil {
		t.Fatalf("%v; log: %s", err, said)
	}
	return s, said, stop
}

func servicePID(t *testing.T, s *podmanService) int {
	t.Helper()
	pid, err := listenerOf(t.Context(), s.socket)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func runs(pid int) bool { return syscall.Kill(pid, 0) == nil }

// startSleeper starts a container through the service and returns its process.
func startSleeper(t *testing.T, url string) int {
	t.Helper()
	podman := func(args ...string) string {
		out, err := exec.Command("podman", append([]string{"--url", url}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("podman %v: %v\n%s", args, err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return lines[len(lines)-1]
	}
	id := podman("run", "-d", "docker.io/library/busybox:latest", "/bin/sleep", "3600")
	var pid int
	if _, err := fmt.Sscan(podman("inspect", "--format", "{{.State.Pid}}", id), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestOwnServiceSurvivesEverythingAndContainersSurviveIt(t *testing.T) {
	h := privatePodman(t)
	s, said, stop := startOwnService(t, filepath.Join(h.Dir, "not/there/yet"), quick)
	sleeper := startSleeper(t, s.url())

	first := servicePID(t, s)
	if group, err := syscall.Getpgid(first); err != nil || group != first {
		t.Errorf("the service is in process group %d (%v), want its own", group, err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new service answers", func() bool {
		pid, err := listenerOf(t.Context(), s.socket)
		return err == nil && pid != 0 && pid != first && pingPodman(t.Context(), s.url()) == nil
	})
	if !strings.Contains(said.String(), "signal: killed") {
		t.Error("the log does not say how the service ended")
	}

	second := servicePID(t, s)
	if took := stop(); took > 1500*time.Millisecond {
		t.Errorf("stopping took %s", took)
	}
	if runs(second) {
		t.Error("the service runs on")
	}
	if !runs(sleeper) {
		t.Error("the container was stopped with the service")
	}
}

func TestHungServiceIsReplaced(t *testing.T) {
	h := privatePodman(t)
	timing := quick
	timing.pingLimit, timing.hung = 200*time.Millisecond, time.Second
	s, said, _ := startOwnService(t, h.Dir, timing)
	hung := servicePID(t, s)
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hung service is gone", func() bool { return !runs(hung) })
	eventually(t, "a new one answers", func() bool { return answersWithin(t.Context(), s.url(), time.Second) == nil })
	if !strings.Contains(said.String(), "it hung, with no answer for") {
		t.Error("the log does not say that it hung")
	}
}

func TestHungServiceDoesNotHoldUpTheStop(t *testing.T) {
	h := privatePodman(t)
	timing := quick
	timing.stop = 300 * time.Millisecond
	s, _, stop := startOwnService(t, h.Dir, timing)
	hung := servicePID(t, s)
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if took := stop(); took > 1500*time.Millisecond {
		t.Errorf("stopping took %s", took)
	}
	if runs(hung) {
		t.Error("the hung service was left behind")
	}
}

// TestAgentProcess is not a test of its own: it is the agent that
// TestServiceOfAKilledAgent kills.
func TestAgentProcess(t *testing.T) {
	dir := os.Getenv("PODSTEAD_TEST_RUNTIME_DIR")
	if dir == "" {
		return
	}
	newPodmanService(dir, quick, slog.New(slog.DiscardHandler)).run(t.Context())
}

func TestServiceOfAKilledAgent(t *testing.T) {
	h := privatePodman(t)
	agent := exec.Command(os.Args[0], "-test.run=^TestAgentProcess$")
	agent.Env = append(os.Environ(), "PODSTEAD_TEST_RUNTIME_DIR="+h.Dir)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill() })
	s := newPodmanService(h.Dir, quick, nil)
	eventually(t, "the agent's service answers", func() bool { return pingPodman(t.Context(), s.url()) == nil })
	service, sleeper := servicePID(t, s), startSleeper(t, s.url())

	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	eventually(t, "the service is gone with its agent", func() bool { return !runs(service) })
	if !runs(sleeper) {
		t.Error("the container was stopped with the agent")
	}
}

func TestLeftoverServiceIsEnded(t *testing.T) {
	h := privatePodman(t)
	leftover, err := startService("unix://"+filepath.Join(h.Dir, "podman.sock"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leftover.stop(0) })
	eventually(t, "the first service answers", func() bool { return pingPodman(t.Context(), "unix://"+filepath.Join(h.Dir, "podman.sock")) == nil })
	if err := leftover.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	timing := quick
	timing.stop = 100 * time.Millisecond
	s, _, _ := startOwnService(t, h.Dir, timing)
	if pid := servicePID(t, s); pid == leftover.process.Pid {
		t.Error("the service that was left over is still used")
	}
	if !leftover.gone(time.Minute) {
		t.Error("the service that was left over was not ended")
	}
}

func TestForeignSocketIsLeftAlone(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "podman.sock")
	listener := listenUnix(t, socket, nil)
	err := clearSocket(t.Context(), socket, time.Second)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), "--socket") {
		t.Errorf("got %v, want an error with the process and the flag", err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

func TestStaleSocketIsRemoved(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "podman.sock")
	listener := listenUnix(t, socket, nil)
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := clearSocket(t.Context(), socket, time.Second); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestMissingPodmanIsTriedAgain(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	said := &logBuffer{}
	s := newPodmanService(t.TempDir(), quick, slog.New(slog.NewTextHandler(said, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.run(ctx); close(done) }()
	eventually(t, "three tries", func() bool { return strings.Count(said.String(), "install Podman, or") >= 3 })
	if err := s.ready(canceled()); !errors.Is(err, context.Canceled) {
		t.Errorf("ready gives %v", err)
	}
	cancel()
	<-done
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestServiceEnvironment(t *testing.T) {
	got := serviceEnvironment([]string{"PATH=/bin", "NOTIFY_SOCKET=/n", "WATCHDOG_PID=1", "LISTEN_FDS=1", "INVOCATION_ID=x", "CONTAINERS_CONF=/c"})
	if want := []string{"PATH=/bin", "CONTAINERS_CONF=/c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLineLogger(t *testing.T) {
	var said logBuffer
	l := &lineLogger{log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key != slog.MessageKey {
			return slog.Attr{}
		}
		return a
	}}))}
	long := strings.Repeat("x", maxLine+100)
	for _, part := range []string{"one\ntwo", " halves\n\n", long, long, "\nlast"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("wrote %d of %d: %v", n, len(part), err)
		}
	}
	want := "msg=\"podman system service: one\"\nmsg=\"podman system service: two halves\"\nmsg=\"podman system service: " + long[:maxLine] + "\"\n"
	if got := said.String(); got != want {
		t.Errorf("logged %q\nwant   %q", got, want)
	}
}
