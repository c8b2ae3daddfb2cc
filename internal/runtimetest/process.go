package runtimetest

import (
	"cmp"
	"fmt"
	"time"

	"podstead.io/podstead/internal/pod"
)

// Script is what the process of a container does. The zero value runs until it
// is told to end, and then ends at once with 0.
type Script struct {
	// Lives is how long it runs before it ends by itself with ExitCode; 0: it
	// does not. The shortest life is a nanosecond.
	Lives    time.Duration
	ExitCode int
	// OOM: the kernel kills it at the end of Lives.
	OOM bool
	// IgnoreTERM: only SIGKILL ends it.
	IgnoreTERM bool
	// StopTakes is the time between SIGTERM and its end, with StopCode.
	StopTakes time.Duration
	StopCode  int
	// Broken is why it can't be started; empty: it can.
	Broken string
}

// killed is the exit code of a process that SIGKILL ended.
const killed = 128 + 9

// SetScript says what the container does in every pod, or in one if it is given
// as "pod/container". Each attempt that is created takes the next script; the
// last holds for all that follow.
func (f *Fake) SetScript(container string, scripts ...Script) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scripts[container] = scripts
}

func (f *Fake) nextScript(podName, name string) Script {
	for _, key := range []string{podName + "/" + name, name} {
		list := f.scripts[key]
		if len(list) == 0 {
			continue
		}
		if len(list) > 1 {
			f.scripts[key] = list[1:]
		}
		return list[0]
	}
	return Script{}
}

// run starts the process of a container.
func (f *Fake) run(c *container, s Script, t Fault) {
	f.serial++
	c.runs++
	c.State, c.PID, c.ExitCode, c.OOMKilled = pod.RunRunning, 1000+f.serial, 0, false
	c.StartedAt, c.FinishedAt = f.now(), time.Time{}
	f.born(c)
	c.ended, c.byHand, c.stray, c.silent = make(chan struct{}), false, false, t.Silent
	if b := f.sandboxes[c.SandboxID]; b != nil && c != b.infra {
		c.network = b.infra.runs
	}
	f.reportContainer(pod.EventStarted, c)
	c.silent = false
	if s.Lives > 0 {
		f.endAfter(c, s.Lives, s.ExitCode, s.OOM)
	}
	if t.DieAfter > 0 && (s.Lives == 0 || t.DieAfter < s.Lives) {
		f.endAfter(c, t.DieAfter, killed, false)
	}
}

// checkAlone notes a second live container of one name in one pod: the one
// thing that the agent must never bring about. A person may.
func (f *Fake) checkAlone(c *container) {
	for _, other := range f.containers {
		if other != c && !other.stray && other.State.Live() && f.mine(other.identity) && other.UID == c.UID && other.identity.Container == c.identity.Container {
			f.violations = append(f.violations, fmt.Sprintf("%s started while %s runs", c.Name, other.Name))
		}
	}
}

// endAfter has the process end unless something else ends that run before.
func (f *Fake) endAfter(c *container, d time.Duration, code int, oom bool) {
	if c.end != nil {
		c.end.Stop()
	}
	c.endsAt = time.Now().Add(d)
	c.end = f.later(c, d, func() {
		if oom {
			c.OOMKilled = true
			f.reportContainer(pod.EventOOM, c)
			code = killed
		}
		why := EndExit
		if oom {
			why = EndOOM
		}
		f.finish(c, code, cmp.Or(c.stopped, why))
	})
}

// later does something to the run of the process that there is now.
func (f *Fake) later(c *container, d time.Duration, do func()) *time.Timer {
	run := c.runs
	return time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c.runs == run && c.State.Live() {
			do()
		}
	})
}

// signal sends SIGTERM, and SIGKILL once the grace is over. A process that is
// being stopped already gets the shorter of the graces. A paused one is thawed
// to be stopped.
func (f *Fake) signal(c *container, grace time.Duration, by End) {
	at := time.Now().Add(grace)
	if !c.killAt.IsZero() && !at.Before(c.killAt) {
		return
	}
	first := c.killAt.IsZero()
	if first {
		c.stopped = by
	}
	c.State = pod.RunRunning
	if grace <= 0 {
		f.finish(c, killed, c.stopped)
		return
	}
	if c.kill != nil {
		c.kill.Stop()
	}
	c.killAt = at
	c.kill = f.later(c, grace, func() { f.finish(c, killed, c.stopped) })
	switch {
	case !first || c.script.IgnoreTERM:
	case c.script.StopTakes > 0:
		f.endAfter(c, c.script.StopTakes, c.script.StopCode, false)
	default:
		f.finish(c, c.script.StopCode, c.stopped)
	}
}

// finish ends the process. The others of a pod whose infra container ends run
// on, without a network.
func (f *Fake) finish(c *container, code int, why End) {
	c.disarm()
	c.State, c.PID, c.ExitCode, c.FinishedAt = pod.RunExited, 0, code, f.now()
	f.died(c, why)
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
	if b := f.sandboxes[c.SandboxID]; b != nil && b.infra == c {
		b.State, b.ExitedAt, b.IPs = pod.RunExited, c.FinishedAt, nil
	}
	f.reportContainer(pod.EventDied, c)
	if c.byHand {
		f.reportContainer(pod.EventStopped, c)
	}
	c.silent = false
}
