package runtimetest

import (
	"time"

	"podstead.io/podstead/internal/pod"
)

// End says who or what ended a process.
type End string

// The ends of processes.
const (
	EndExit   End = "exit"   // it ended by itself, or for a signal that did not come through the runtime
	EndOOM    End = "oom"    // the kernel killed it for lack of memory
	EndHand   End = "hand"   // a person stopped or removed it
	EndAgent  End = "agent"  // a call of the interface that is under test did
	EndReboot End = "reboot" // the machine was cut off
)

// Life is one run of a process as it really was, whatever anyone was told.
// Times are those of the clock that never jumps.
type Life struct {
	pod.Identity
	ID        string // of the container
	SandboxID string
	Args      []string
	// Hostname is that of an infra container.
	Hostname string
	// ByHand: a person started it.
	ByHand   bool
	Started  time.Time
	Ended    time.Time // zero: it runs
	End      End
	ExitCode int
}

// Lives are all runs of processes so far, those of infra containers included,
// in the order in which they began.
func (f *Fake) Lives() []Life {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Life, len(f.lives))
	for i, l := range f.lives {
		out[i] = *l
	}
	return out
}

// Restless is when the last of the processes that are to end by themselves will
// have done so; zero: none is.
func (f *Fake) Restless() (until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		if c.State.Live() && c.endsAt.After(until) {
			until = c.endsAt
		}
	}
	return until
}

func (f *Fake) born(c *container) {
	c.stopped = ""
	c.life = &Life{Identity: c.identity, ID: c.ID, SandboxID: c.SandboxID, Args: c.args, Hostname: c.hostname, Started: time.Now()}
	f.lives = append(f.lives, c.life)
}

func (f *Fake) died(c *container, why End) {
	if c.life.Ended.IsZero() {
		c.life.Ended, c.life.End, c.life.ExitCode = time.Now(), why, c.ExitCode
	}
}
