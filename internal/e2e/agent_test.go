package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// nodeName is the suffix of static pods.
const nodeName = "node"

// static is the name that a pod from a directory or URL gets.
func static(name string) string { return name + "-" + nodeName }

// agent is podsteadd over a Podman of its own.
type agent struct {
	host      *podmanhost.Host
	root      string
	socket    string
	manifests string
	podman    []string // the flag that names Podman's socket; none: the agent finds or starts a service
	flags     []string
	wrapper   []string // command that becomes the agent, which is its last word
	http      *http.Client
	running   *process // the latest
	witness   *witness
}

// process is one run of the agent.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// startAgent starts a Podman and an agent over it, and returns when that
// answers. Both are gone when the test has ended.
func startAgent(t *testing.T, flags ...string) *agent {
	t.Helper()
	a := newAgent(t, podmanhost.Start(t), flags...)
	a.start(t)
	return a
}

// newAgent prepares an agent that is not started.
func newAgent(t *testing.T, host *podmanhost.Host, flags ...string) *agent {
	t.Helper()
	dir := filepath.Join(host.Dir, "agent")
	a := &agent{
		host: host, root: filepath.Join(dir, "root"), socket: filepath.Join(dir, "podstead.sock"),
		manifests: filepath.Join(dir, "manifests"), podman: []string{"--podman-url", host.URL},
		flags: flags, wrapper: []string{binaries.agent}, witness: watchContainers(t, host.Dir),
	}
	a.http = &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", a.socket)
		},
	}}
	for _, made := range []string{a.root, a.manifests} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if a.running != nil {
			a.running.signal(syscall.SIGKILL)
			<-a.running.ended
		}
		if t.Failed() {
			t.Logf("the agent's log ends with:\n%s", a.logEnd())
		}
	})
	return a
}

func (a *agent) logFile() string { return filepath.Join(filepath.Dir(a.root), "agent.log") }

// logEnd is the last of the agent's log, without the questions that tests ask
// while they wait.
func (a *agent) logEnd() string {
	const most = 64 << 10
	said, err := os.ReadFile(a.logFile())
	if err != nil {
		return err.Error()
	}
	var kept strings.Builder
	for line := range strings.Lines(string(said)) {
		if !strings.Contains(line, "msg=request method=") {
			kept.WriteString(line)
		}
	}
	text := kept.String()
	if len(text) > most {
		text = text[len(text)-most:]
		text = text[strings.IndexByte(text, '\n')+1:]
	}
	return text
}

// arguments is the agent's command line.
func (a *agent) arguments() []string {
	return slices.Concat([]string{
		"--root-dir", a.root, "--socket", a.socket, "--pod-manifest-path", a.manifests,
		"--hostname-override", nodeName, "--log-level", "debug",
	}, a.podman, a.flags)
}

// launch starts the agent's process and returns at once.
func (a *agent) launch(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(a.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(a.wrapper[0], slices.Concat(a.wrapper[1:], a.arguments())...)
	cmd.Env = append(os.Environ(), a.host.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the agent: %v", err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	a.running = p
}

// start starts the agent and returns when it answers.
func (a *agent) start(t *testing.T) {
	t.Helper()
	a.launch(t)
	eventually(t, "the agent answers", func() error { return a.healthy("/healthz") })
}

// ready waits until the agent has seen Podman and every source.
func (a *agent) ready(t *testing.T) {
	t.Helper()
	eventually(t, "the agent is ready", func() error { return a.healthy("/readyz") })
}

func (a *agent) healthy(path string) error {
	select {
	case <-a.running.ended:
		return hopeless{fmt.Errorf("the agent has ended: %s", a.running.cmd.ProcessState)}
	default:
	}
	answer, err := a.ask(request{path: path})
	if err != nil {
		return err
	}
	return unless(answer.status == http.StatusOK, "%s: %s", path, answer.body)
}

// stop ends the agent with SIGTERM and returns how long that took.
func (a *agent) stop(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	a.running.signal(syscall.SIGTERM)
	select {
	case <-a.running.ended:
	case <-time.After(patience):
		t.Fatal("the agent does not stop")
	}
	return time.Since(began)
}

// kill ends the agent with SIGKILL.
func (a *agent) kill() {
	a.running.signal(syscall.SIGKILL)
	<-a.running.ended
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err) // it is a child of this process
	}
}
