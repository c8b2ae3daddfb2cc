package runtimetest

import (
	"time"

	"podstead.io/podstead/internal/pod"
)

// handGrace is what podman stop gives a container unless told otherwise.
const handGrace = 10 * time.Second

// behind does something to a container without the API service. What is not
// there, or does not run when it has to, is left alone.
func (f *Fake) behind(id string, do func(c *container)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[id]; c != nil {
		do(c)
	}
}

func (f *Fake) behindLive(id string, do func(c *container)) {
	f.behind(id, func(c *container) {
		if c.State.Live() {
			do(c)
		}
	})
}

// Exit has the process of a container, infra containers included, end by itself.
func (f *Fake) Exit(id string, code int) {
	f.behindLive(id, func(c *container) { f.finish(c, code, EndExit) })
}

// KillProcess ends it with SIGKILL, not through Podman.
func (f *Fake) KillProcess(id string) {
	f.behindLive(id, func(c *container) { f.finish(c, killed, EndExit) })
}

// OOM has the kernel kill it for lack of memory.
func (f *Fake) OOM(id string) {
	f.behindLive(id, func(c *container) {
		c.OOMKilled = true
		f.reportContainer(pod.EventOOM, c)
		f.finish(c, killed, EndOOM)
	})
}

// StopByHand is podman stop: the process dies, and then Podman says that someone
// stopped it.
func (f *Fake) StopByHand(id string) {
	f.behindLive(id, func(c *container) {
		c.byHand = true
		f.signal(c, handGrace, EndHand)
	})
}

// KillByHand is podman kill: Podman says so, and then the process dies.
func (f *Fake) KillByHand(id string) {
	f.behindLive(id, func(c *container) {
		f.reportContainer(pod.EventStopped, c)
		f.finish(c, killed, EndHand)
	})
}

// SignalByHand is podman kill with a signal that ends nothing, such as SIGHUP.
func (f *Fake) SignalByHand(id string) {
	f.behindLive(id, func(c *container) { f.reportContainer(pod.EventStopped, c) })
}

// StartByHand is podman start of a container that has ended or never ran.
func (f *Fake) StartByHand(id string) {
	f.behind(id, func(c *container) {
		if c.State.Live() {
			return
		}
		if b := f.sandboxes[c.SandboxID]; b != nil && !b.State.Live() && b.infra != c {
			return
		}
		f.run(c, c.script, Fault{})
		c.stray, c.life.ByHand = true, true
		if b := f.sandboxes[c.SandboxID]; b != nil && b.infra == c {
			b.State, b.StartedAt, b.ExitedAt = pod.RunRunning, c.StartedAt, time.Time{}
		}
	})
}

// Pause is podman pause, Unpause podman unpause.
func (f *Fake) Pause(id string) { f.freeze(id, pod.RunRunning, pod.RunPaused, pod.EventPaused) }

// Unpause ends Pause.
func (f *Fake) Unpause(id string) { f.freeze(id, pod.RunPaused, pod.RunRunning, pod.EventResumed) }

func (f *Fake) freeze(id string, from, to pod.RunState, kind pod.EventKind) {
	f.behind(id, func(c *container) {
		if c.State == from {
			c.State = to
			f.reportContainer(kind, c)
		}
	})
}

// RemoveBehind is podman rm --force of a container, or podman pod rm --force
// when the ID is that of a Podman pod or its infra container.
func (f *Fake) RemoveBehind(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.sandboxes[id]
	c := f.containers[id]
	if c != nil && c.Kind == pod.KindSandbox {
		b = f.sandboxes[c.SandboxID]
	}
	switch {
	case b != nil:
		f.dropSandbox(b, false, EndHand)
	case c != nil:
		f.dropContainer(c, false, EndHand)
	}
}

// Foreign runs a container that someone else made, and returns its ID.
func (f *Fake) Foreign(name string, labels map[string]string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	identity, err := pod.ParseLabels(labels)
	if err != nil {
		identity = pod.Identity{} // not a container of any Podstead
	}
	c := &container{identity: identity}
	c.ID, c.Name, c.CreatedAt = f.id("c"), name, f.now()
	f.containers[c.ID], f.names[name] = c, c.ID
	f.run(c, Script{}, Fault{})
	return c.ID
}

// Reboot ends everything without a word, as a power cut does. What ran is then
// in the state given: Podman says created or exited, as it was cut off. Whoever
// followed events has lost the connection.
func (f *Fake) Reboot(left pod.RunState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		if !c.State.Live() {
			continue
		}
		c.disarm()
		c.State, c.PID = left, 0
		f.died(c, EndReboot)
		if left == pod.RunExited {
			c.ExitCode, c.FinishedAt = killed, f.now()
		}
		close(c.ended)
		c.ended = nil
		if b := f.sandboxes[c.SandboxID]; b != nil && b.infra == c {
			b.State, b.ExitedAt, b.IPs = left, c.FinishedAt, nil
		}
	}
	f.breakStreams()
}
