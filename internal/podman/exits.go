package podman

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"podstead.io/podstead/internal/pod"
)

// exits follows the processes of running containers. The kernel tells of an end
// at once; Podman's event comes from the process that cleans up after it, some
// 100 ms later, and never if the container's monitor died first.
//
// It owns a goroutine for each container that runs, ended by close.
type exits struct {
	// apart: Podman's process IDs mean nothing here, since the agent runs in a
	// PID namespace of its own. Podman's events are all there is then.
	apart atomic.Bool

	mu        sync.Mutex
	processes map[string]*process // by container ID
	followers map[*func(pod.RuntimeEvent)]struct{}
	closed    bool
	waiting   sync.WaitGroup
	// refused is what last kept a process from being followed, told once.
	refused error
	log     *slog.Logger
}

// process is the first one of a container.
type process struct {
	pid    int
	handle *os.File // nil once it has ended
	// ended is when it was found to have ended; zero before.
	ended time.Time
	// alone: nobody is left to say how it ended.
	alone bool
	// expected: the driver is ending it, and will say so itself.
	expected bool
	reminder *time.Timer
}

// monitorGrace is how long a container's monitor is given to write down how it
// ended. A busy machine needs seconds; one that is dead never does.
const monitorGrace = 10 * time.Second

// dialed learns from a connection to Podman whether the two see the same
// processes: the kernel gives 0 for a peer that can't be seen.
func (e *exits) dialed(c net.Conn) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		e.apart.Store(err == nil && peer.Pid == 0)
	})
}

// follow waits for the end of a container's process, once. One that has ended by
// now is not told of: who asks sees it.
func (e *exits) follow(id string, pid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[id]; e.closed || e.apart.Load() || pid <= 0 || p != nil && p.pid == pid {
		return
	}
	e.forgetLocked(id)
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		if !errors.Is(err, e.refused) {
			e.refused = err
			e.log.Warn("the end of a container's process can't be waited for: it is known when Podman tells of it, and never if its monitor (conmon) dies first", "container", id, "pid", pid, "err", err)
		}
		return
	}
	p := &process{pid: pid}
	e.processes[id] = p
	if err == nil {
		p.handle = os.NewFile(uintptr(fd), "pidfd")
	}
	if err != nil || over(fd) || !belongs(pid, id) {
		e.overLocked(id, p)
		return
	}
	handle := p.handle
	e.waiting.Go(func() { e.await(id, p, handle) })
}

// over reports whether the process of a pidfd has ended: pidfd_open(2).
func over(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// belongs reports whether a process is of the container, and not of another
// program that was given its ID since. Podman names control groups so, unless they
// are turned off, and the directory of the files that it mounts into a container.
// One that can't be looked at is taken to be of the container: what runs must not
// be started again.
func belongs(pid int, id string) bool {
	for _, file := range []string{"cgroup", "mountinfo"} {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH)
		}
		if bytes.Contains(content, []byte(id)) {
			return true
		}
	}
	return false
}

// monitors reports whether a process is the monitor of the container. One that
// can't be looked at, or that Podman does not name, is taken to be.
func monitors(pid int, id string) bool {
	if pid <= 0 {
		return true
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH)
	}
	return bytes.Contains(command, []byte(id))
}

// await returns when the process has ended or its handle was closed.
func (e *exits) await(id string, p *process, handle *os.File) {
	raw, err := handle.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool { return over(int(fd)) })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || e.processes[id] != p {
		return
	}
	e.overLocked(id, p)
	if !p.expected {
		e.tell(id)
	}
}

// overLocked notes an end, and tells of it when Podman should know: if it does
// not, nobody will say how the process ended.
func (e *exits) overLocked(id string, p *process) {
	if p.handle != nil {
		_ = p.handle.Close()
		p.handle = nil
	}
	p.ended = time.Now()
	p.reminder = time.AfterFunc(monitorGrace, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.processes[id] == p {
			e.tell(id)
		}
	})
}

func (e *exits) tell(id string) {
	for fn := range e.followers {
		(*fn)(pod.RuntimeEvent{Kind: pod.EventDied, ID: id, At: time.Now()})
	}
}

// subscribe has fn told of ends until the returned function was called. It is
// never called twice at a time, nor after that.
func (e *exits) subscribe(fn func(pod.RuntimeEvent)) (cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.followers[&fn] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.followers, &fn)
	}
}

// expect keeps an end that the driver brings about from being told, until the
// returned function was called.
func (e *exits) expect(id string) (done func()) {
	set := func(on bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if p := e.processes[id]; p != nil {
			p.expected = on
		}
	}
	set(true)
	return func() { set(false) }
}

// ended is when a container that ran with this process was found to run no more;
// zero: it runs, or is not followed. final says that Podman would know by now.
func (e *exits) ended(id string, pid int) (at time.Time, final bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.processes[id]
	if p == nil || p.pid != pid || p.ended.IsZero() {
		return time.Time{}, false
	}
	return p.ended, p.alone || time.Since(p.ended) >= monitorGrace
}

// unheard makes the end of a process final: its monitor has ended without a word.
func (e *exits) unheard(id string, pid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[id]; p != nil && p.pid == pid {
		p.alone = true
	}
}

// known lists the containers that are followed, or were found to have ended.
func (e *exits) known() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.processes))
}

func (e *exits) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetLocked(id)
}

func (e *exits) forgetLocked(id string) {
	p := e.processes[id]
	if p == nil {
		return
	}
	if p.handle != nil {
		_ = p.handle.Close()
	}
	if p.reminder != nil {
		p.reminder.Stop()
	}
	delete(e.processes, id)
}

func (e *exits) close() {
	e.mu.Lock()
	e.closed = true
	for id := range e.processes {
		e.forgetLocked(id)
	}
	e.mu.Unlock()
	e.waiting.Wait()
}

// Pauses between looks at a container that has ended, until Podman knows it too:
// its monitor writes the exit code down right after the end.
const (
	lagFirst = 2 * time.Millisecond
	lagLast  = 64 * time.Millisecond
)

// unmonitored is why a container counts as ended that Podman believes to run.
const unmonitored = "its monitor (conmon) died before it did: how it ended is not known"

// settle has a container that Podman believes to run end once its process is
// known to be gone and nobody will say how it ended.
func (d *Driver) settle(c *pod.Container) {
	if !c.State.Live() {
		d.exits.forget(c.ID)
		return
	}
	d.exits.follow(c.ID, c.PID)
	if at, final := d.exits.ended(c.ID, c.PID); final {
		c.State, c.PID, c.ExitCode, c.FinishedAt = pod.RunExited, 0, killed, normalize(at)
		c.EndCause, c.EndDetail = pod.CauseExit, unmonitored
	}
}

// settleSandbox is settle for the infra container with this process.
func (d *Driver) settleSandbox(b *pod.Sandbox, pid int) {
	if !b.State.Live() {
		d.exits.forget(b.InfraID)
		return
	}
	d.exits.follow(b.InfraID, pid)
	if at, final := d.exits.ended(b.InfraID, pid); final {
		b.State, b.IPs, b.ExitedAt = pod.RunExited, nil, normalize(at)
	}
}
