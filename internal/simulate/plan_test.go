package simulate

import (
	"fmt"
	"strings"
	"time"

	"podstead.io/podstead/internal/runtimetest"
)

// act is what a step does.
type act string

// The acts: what is wanted changes,
const (
	actSubmit   act = "submit"   // Shape
	actWithdraw act = "withdraw" // Slot, File; N seconds of grace, −1 for the pod's own
)

// containers do something,
const (
	actScript act = "script" // Slot, File, Container, Scripts: what attempts to come do
	actExit   act = "exit"   // Slot, Container; exit code N
	actOOM    act = "oom"    // Slot, Container
	actInfra  act = "infra dies"
)

// people meddle,
const (
	actStop      act = "podman stop"
	actKill      act = "podman kill"
	actStart     act = "podman start" // of the latest attempt that has ended
	actPause     act = "podman pause"
	actRemove    act = "podman rm -f"
	actRemovePod act = "podman pod rm -f"
	actUntag     act = "podman rmi" // N: which image
)

// and things break.
const (
	actFault    act = "fault"         // Fault
	actStopped  act = "service stops" // for D
	actHung     act = "service hangs" // for D
	actStreams  act = "streams break"
	actMute     act = "events are lost" // for D
	actRegistry act = "registry away"   // for D
	actCrash    act = "crash"           // at point N from now, away for D; the next life ends at point M
	actRestart  act = "restart"         // away for D
	actReboot   act = "reboot"          // for D; N even: Podman says created
	actPowerCut act = "power cut"       // as reboot, with what was not synced cut to Keep
	actFull     act = "disk full"       // for D
	actClock    act = "clock jumps"     // by D
	actCalm     act = "calm"            // everything mended; it has to settle, and then to rest for D
)

// disturbs says which acts are no business of a machine that works.
func (a act) disturbs() bool {
	switch a {
	case actSubmit, actWithdraw, actScript, actExit, actOOM, actInfra, actCalm:
		return false
	}
	return true
}

// step is one thing that happens.
type step struct {
	After     time.Duration // since the step before
	Act       act
	Slot      int
	File      bool
	Container string
	N, M      int
	D         time.Duration
	Keep      float64
	Shape     *shape
	Fault     *runtimetest.Fault
	Scripts   []runtimetest.Script
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %s", s.After, s.Act)
	switch {
	case s.Shape != nil:
		fmt.Fprintf(&b, " %s", s.Shape)
	case s.Act.aboutPod():
		fmt.Fprintf(&b, " %s", podName(s.Slot, s.File))
	}
	if s.Container != "" {
		fmt.Fprintf(&b, "/%s", s.Container)
	}
	if s.N != 0 || s.M != 0 {
		fmt.Fprintf(&b, " n=%d m=%d", s.N, s.M)
	}
	if s.D != 0 {
		fmt.Fprintf(&b, " for %s", s.D)
	}
	if s.Act == actPowerCut {
		fmt.Fprintf(&b, " keeping %.2f", s.Keep)
	}
	if s.Fault != nil {
		fmt.Fprintf(&b, " %+v", *s.Fault)
	}
	if s.Scripts != nil {
		fmt.Fprintf(&b, " %+v", s.Scripts)
	}
	return b.String()
}

func (a act) aboutPod() bool {
	switch a {
	case actWithdraw, actScript, actExit, actOOM, actInfra, actStop, actKill, actStart, actPause, actRemove, actRemovePod:
		return true
	}
	return false
}

// plan is a whole simulation as data: the seed gives it, and it gives the rest.
type plan struct {
	Seed uint64
	// Fresh: there is no database at first.
	Fresh bool
	// Backup: there is one, which costs as much again.
	Backup bool
	// Late: who gives up waiting for the runtime does not call it off.
	Late  bool
	Steps []step
}

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: fresh %t, backup %t, late %t\n", p.Seed, p.Fresh, p.Backup, p.Late)
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%3d  %s\n", i, s)
	}
	return b.String()
}
