package podman

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"podstead.io/podstead/internal/pod"
)

// exits follows the processes of running containers. The kernel tells of an end
// at once; Podman's event comes from the process that cleans up after it, some
// 100 ms later. Where the kernel can't be asked (no pidfd, another PID
// namespace), that event is what there is.
//
// It owns a goroutine for each container that runs, ended by close.
type exits struct {
	mu        sync.Mutex
	processes map[string]*process // by container ID
	followers map[*func(pod.RuntimeEvent)]struct{}
	closed    bool
	waiting   sync.WaitGroup
}

// process is the first one of a container.
type process struct {
	pid    int
	handle *os.File // nil once it has ended
	// expected: the driver is ending it, and will say so itself.
	expected bool
}

// follow waits for the end of a container's process, once.
func (e *exits) follow(id string, pid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[id]; e.closed || pid <= 0 || p != nil && p.pid == pid {
		return
	}
	e.forgetLocked(id)
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH):
		e.processes[id] = &process{pid: pid}
		e.tell(id)
		return
	case err != nil:
		return
	}
	p := &process{pid: pid, handle: os.NewFile(uintptr(fd), "pidfd")}
	e.processes[id] = p
	handle := p.handle
	e.waiting.Go(func() { e.await(id, p, handle) })
}

// await returns when the process has ended or its handle was closed.
func (e *exits) await(id string, p *process, handle *os.File) {
	raw, err := handle.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 && err == nil
		})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || e.processes[id] != p {
		return
	}
	_ = p.handle.Close()
	p.handle = nil
	if !p.expected {
		e.tell(id)
	}
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

// ended reports whether a container that ran with this process runs no more.
func (e *exits) ended(id string, pid int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.processes[id]
	return p != nil && p.pid == pid && p.handle == nil
}

func (e *exits) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetLocked(id)
}

func (e *exits) forgetLocked(id string) {
	if p := e.processes[id]; p != nil && p.handle != nil {
		_ = p.handle.Close()
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
// conmon writes the exit code down right after the end.
const (
	lagFirst = 2 * time.Millisecond
	lagLast  = 64 * time.Millisecond
)
