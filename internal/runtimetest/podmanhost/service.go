package podmanhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startTimeout is how long a service may take to answer, on a machine that is busy
// with other tests; stopTimeout how long it may take to go after SIGTERM.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// Service is one host: a directory with configuration and storage, and the service
// over it. Its methods are not safe for concurrent use.
type Service struct {
	// Dir holds the host. A test may put an agent's root directory below it: what
	// is mounted there is unmounted by Remove.
	Dir string
	// URL is the service's socket, as --podman-url takes it.
	URL string
	// Env makes a podman command, or an agent that starts its own service, use the
	// host's storage.
	Env []string
	// Registry is the loopback address that Podman uses without TLS. Nothing
	// listens there until [Host.StartRegistry].
	Registry string

	slot slot
}

// Create makes a host and starts its service. When the process owner is gone, the
// next Create or Reap removes the host; owner 0 keeps it until Remove.
func Create(owner int) (*Service, error) {
	if err := usable(); err != nil {
		return nil, err
	}
	s, err := claim(owner)
	if err != nil {
		return nil, err
	}
	p, err := open(s)
	if err == nil {
		err = p.fill()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, errors.Join(err, remove(s))
	}
	return p, nil
}

// Open returns the host in dir, which another process created.
func Open(dir string) (*Service, error) {
	s, err := slotOf(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.dir()); err != nil {
		return nil, err
	}
	return open(s)
}

func open(s slot) (*Service, error) {
	dir := s.dir()
	p := &Service{Dir: dir, URL: "unix://" + filepath.Join(dir, "podman.sock"), Env: environment(dir), slot: s}
	address, err := os.ReadFile(p.registryFile())
	if errors.Is(err, os.ErrNotExist) {
		p.Registry, err = freeAddress()
		if err == nil {
			err = os.WriteFile(p.registryFile(), []byte(p.Registry), 0o600)
		}
		return p, err
	}
	p.Registry = string(address)
	return p, err
}

func (p *Service) registryFile() string { return filepath.Join(p.Dir, "registry") }
func (p *Service) pidFile() string      { return filepath.Join(p.Dir, "service.pid") }
func (p *Service) logFile() string      { return filepath.Join(p.Dir, "service.log") }

// usable says why no host can be made on this machine, and what to do about it.
func usable() error {
	if os.Geteuid() != 0 {
		return errors.New("a private Podman needs root: run the tests as root")
	}
	for _, name := range []string{"podman", "runc", "conmon", "iptables-save"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: run scripts/deps", err)
		}
	}
	return nil
}

func (p *Service) fill() error {
	if err := configure(p.slot, p.Registry); err != nil {
		return err
	}
	if err := populate(p.Dir); err != nil {
		return err
	}
	return p.prepareFirewall()
}

// Start starts the service and returns when it answers.
func (p *Service) Start() error {
	socket := strings.TrimPrefix(p.URL, "unix://")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command("podman", "system", "service", "--time=0", p.URL)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Dir = p.Dir // conmon leaves a file named oom in it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	if err := errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("start podman system service: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	if err := os.WriteFile(p.pidFile(), []byte(ownerMark(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	if err := ping(socket, exited); err != nil {
		said, _ := os.ReadFile(p.logFile())
		return fmt.Errorf("podman system service on %s: %w; it said: %s", p.URL, err, said)
	}
	return nil
}

// ping waits until the service answers.
func ping(socket string, exited <-chan struct{}) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/_ping", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-exited:
			return errors.New("it exited")
		case <-ctx.Done():
			return fmt.Errorf("no answer within %s: %w", startTimeout, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// PID is the process of the running service, or 0.
func (p *Service) PID() int {
	if pid, runs := marked(p.pidFile()); runs {
		return pid
	}
	return 0
}

// Stop ends the service as systemd does, with SIGTERM; containers go on. A service
// that does not run is no error.
func (p *Service) Stop() error {
	return errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT), p.waitExit(stopTimeout))
}

// Kill ends the service with SIGKILL, in whatever it is doing; containers go on.
func (p *Service) Kill() error {
	return errors.Join(p.signal(syscall.SIGKILL), p.waitExit(stopTimeout))
}

// Pause stops the service where it is: its socket accepts and never answers.
func (p *Service) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused service go on.
func (p *Service) Resume() error { return p.signal(syscall.SIGCONT) }

// PowerCut ends every process of the host at once, the agent and all containers
// included, and leaves nothing mounted. Files stay.
func (p *Service) PowerCut() error {
	freezeMembers(p.Dir)
	return errors.Join(killMembers(p.Dir), unmountBelow(p.Dir))
}

// Restart stops the service and starts it again.
func (p *Service) Restart() error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start()
}

// Keep lets the host outlive the process that it was created for.
func (p *Service) Keep() error {
	return os.WriteFile(p.slot.ownerFile(), []byte(ownerMark(nobody)), 0o600)
}

// Remove ends everything that the host started and removes all that it made.
func (p *Service) Remove() error { return remove(p.slot) }

// Podman runs the podman command on the host's storage, beside the service, and
// returns its standard output.
func (p *Service) Podman(args ...string) (string, error) {
	return output(p.Env, "podman", args...)
}

func (p *Service) signal(signal syscall.Signal) error {
	pid := p.PID()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%s to podman system service %d: %w", signal, pid, err)
	}
	return nil
}

func (p *Service) waitExit(within time.Duration) error {
	return until(within, "podman system service to exit", func() bool { return p.PID() == 0 })
}

// until waits for something that no one announces.
func until(within time.Duration, what string, done func() bool) error {
	for deadline := time.Now().Add(within); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s in vain for %s", within, what)
		}
	}
	return nil
}
