package app

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// serviceProcess is one running `podman system service`.
type serviceProcess struct {
	process *os.Process
	// ended is closed when it has ended; why says how, from then on.
	ended chan struct{}
	why   error
}

// startService starts a service in a process group of its own, so that a Ctrl-C
// at the agent's terminal is the agent's alone.
//
// Should the agent be killed, the kernel sends the service SIGTERM: one left over
// would hold Podman's locks against the next. That signal is bound to the thread
// that started the process, not to the agent, so the thread is held until the
// process has ended.
func startService(url string, log *slog.Logger) (*serviceProcess, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return nil, fmt.Errorf("%w: install Podman, or name the socket of a service with --podman-url", err)
	}
	cmd := exec.Command(path, "system", "service", "--time=0", url)
	cmd.Env = serviceEnvironment(os.Environ())
	cmd.Dir = filepath.Dir(strings.TrimPrefix(url, "unix://")) // conmon leaves a file named oom in it
	cmd.Stderr = &lineLogger{log: log}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	// What Podman started may still hold its standard error; it is not waited for.
	cmd.WaitDelay = 100 * time.Millisecond
	started := make(chan error)
	service := &serviceProcess{ended: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if service.why = cmd.Wait(); service.why == nil {
			service.why = errors.New("exit status 0")
		}
		close(service.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	service.process = cmd.Process
	return service, nil
}

// killLimit is how long a killed process may take to be gone. One that waits for
// a disk in the kernel takes longer, and is left to the kernel.
const killLimit = 500 * time.Millisecond

// stop ends the process, with SIGKILL after the grace. Only the process itself is
// signalled: others in its group, such as the name server of a pod network,
// belong to containers.
func (p *serviceProcess) stop(grace time.Duration) {
	// A signal fails only when the process has ended.
	if grace > 0 {
		_ = p.process.Signal(syscall.SIGTERM)
		if p.gone(grace) {
			return
		}
	}
	_ = p.process.Kill()
	p.gone(killLimit)
}

func (p *serviceProcess) gone(within time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// ownVariables tell a process about its own unit and sockets. Handed on, the
// service would report itself to systemd as the agent, take the agent's sockets
// for its own, or leave conmon in the agent's control group.
var ownVariables = []string{
	"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "INVOCATION_ID",
}

func serviceEnvironment(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(ownVariables, name)
	})
}

// maxLine cuts lines that nobody would read.
const maxLine = 4096

// lineLogger logs what is written to it line by line.
type lineLogger struct {
	log  *slog.Logger
	line []byte
}

// Write implements [io.Writer].
func (l *lineLogger) Write(p []byte) (int, error) {
	written := len(p)
	for {
		before, after, ended := bytes.Cut(p, []byte{'\n'})
		if room := maxLine - len(l.line); room > 0 {
			l.line = append(l.line, before[:min(room, len(before))]...)
		}
		if !ended {
			return written, nil
		}
		if len(l.line) > 0 {
			l.log.Info("podman system service: " + string(l.line))
		}
		l.line, p = l.line[:0], after
	}
}
