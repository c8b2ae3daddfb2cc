// Package lifecycle decides. Next compares what is desired of one pod with
// what is observed of it and returns the event to fire and the actions to take;
// Status describes the pod as Kubernetes does. Both are pure: no I/O, no clock,
// no goroutine.
//
// The legality of every transition is kept in two looplab/fsm tables, one for
// pods and one for containers. They hold no callbacks: a side effect in a
// callback could fail after the state has changed.
package lifecycle

//go:generate go run ./gen ../../schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/looplab/fsm"

	"podstead.io/podstead/internal/pod"
)

// Events of the pod machine.
const (
	EventSubmit   = "submit"   // a source wants the pod
	EventRun      = "run"      // its first container runs
	EventRecreate = "recreate" // its sandbox is made anew
	EventSucceed  = "succeed"  // every container ended well and none is to be restarted
	EventFail     = "fail"     // every container ended, one of them badly
	EventEvict    = "evict"    // the node needed its resources
	EventDelete   = "delete"   // nobody wants it any more
	EventForget   = "forget"   // nothing of it is left
	EventHold     = "hold"     // something that it needs can't be made, or what is in the way removed
)

// States and events of the container machine. Its states are those of a
// Kubernetes container status, and paused. EventHold is that an attempt failed
// before there was a process.
const (
	ContainerNone       = ""
	ContainerWaiting    = "Waiting"
	ContainerRunning    = "Running"
	ContainerPaused     = "Paused"
	ContainerTerminated = "Terminated"

	EventStart   = "start"   // its process runs
	EventPause   = "pause"   // someone paused it in Podman
	EventResume  = "resume"  // and resumed it
	EventExit    = "exit"    // its process ended, or could not be started
	EventVanish  = "vanish"  // it was removed behind the agent's back
	EventRestart = "restart" // another attempt is due, now or after its back-off
)

func states(s ...pod.State) []string {
	out := make([]string, len(s))
	for i := range s {
		out[i] = string(s[i])
	}
	return out
}

var podEvents = fsm.Events{
	{Name: EventSubmit, Src: states(pod.StateNone), Dst: string(pod.StatePending)},
	{Name: EventRun, Src: states(pod.StatePending), Dst: string(pod.StateRunning)},
	{Name: EventRecreate, Src: states(pod.StatePending, pod.StateSucceeded, pod.StateFailed, pod.StateEvicted), Dst: string(pod.StatePending)},
	{Name: EventRecreate, Src: states(pod.StateRunning), Dst: string(pod.StateRunning)},
	{Name: EventSucceed, Src: states(pod.StatePending, pod.StateRunning), Dst: string(pod.StateSucceeded)},
	{Name: EventFail, Src: states(pod.StatePending, pod.StateRunning), Dst: string(pod.StateFailed)},
	{Name: EventEvict, Src: states(pod.StatePending, pod.StateRunning), Dst: string(pod.StateEvicted)},
	{Name: EventDelete, Src: states(pod.StateNone, pod.StatePending, pod.StateRunning, pod.StateSucceeded, pod.StateFailed, pod.StateEvicted), Dst: string(pod.StateTerminating)},
	{Name: EventForget, Src: states(pod.StateTerminating), Dst: string(pod.StateGone)},
	{Name: EventHold, Src: states(pod.StatePending), Dst: string(pod.StatePending)},
	{Name: EventHold, Src: states(pod.StateRunning), Dst: string(pod.StateRunning)},
	{Name: EventHold, Src: states(pod.StateSucceeded), Dst: string(pod.StateSucceeded)},
	{Name: EventHold, Src: states(pod.StateFailed), Dst: string(pod.StateFailed)},
	{Name: EventHold, Src: states(pod.StateEvicted), Dst: string(pod.StateEvicted)},
	{Name: EventHold, Src: states(pod.StateTerminating), Dst: string(pod.StateTerminating)},
}

var containerEvents = fsm.Events{
	{Name: EventSubmit, Src: []string{ContainerNone}, Dst: ContainerWaiting},
	{Name: EventStart, Src: []string{ContainerWaiting, ContainerTerminated}, Dst: ContainerRunning},
	{Name: EventPause, Src: []string{ContainerRunning}, Dst: ContainerPaused},
	{Name: EventResume, Src: []string{ContainerPaused}, Dst: ContainerRunning},
	{Name: EventExit, Src: []string{ContainerWaiting, ContainerRunning, ContainerPaused}, Dst: ContainerTerminated},
	{Name: EventVanish, Src: []string{ContainerWaiting, ContainerRunning, ContainerPaused}, Dst: ContainerTerminated},
	{Name: EventRestart, Src: []string{ContainerTerminated}, Dst: ContainerWaiting},
	{Name: EventHold, Src: []string{ContainerWaiting}, Dst: ContainerWaiting},
}

func events(m pod.Machine) fsm.Events {
	if m == pod.MachineContainer {
		return containerEvents
	}
	return podEvents
}

// Fire is the state that event leads to from the given state, or an error of
// class Invalid when the machine's table does not allow it.
func Fire(m pod.Machine, from, event string) (string, error) {
	f := fsm.NewFSM(from, events(m), nil)
	err := f.Event(context.Background(), event)
	var same fsm.NoTransitionError
	if err != nil && !errors.As(err, &same) {
		return "", &pod.Error{Class: pod.Invalid, Op: "fire " + event, Object: string(m) + " machine", Err: fmt.Errorf("not legal from state %q", from)}
	}
	return f.Current(), nil
}

// FirePod is Fire for the pod machine.
func FirePod(from pod.State, event string) (pod.State, error) {
	to, err := Fire(pod.MachinePod, string(from), event)
	return pod.State(to), err
}

// Diagram is the machine's table as a Mermaid state diagram. The library's own
// visualizer leaves the nameless start state blank.
func Diagram(m pod.Machine) string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, e := range events(m) {
		for _, src := range e.Src {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", cmp.Or(src, "[*]"), e.Dst, e.Name)
		}
	}
	return b.String()
}
