package lifecycle

import (
	"time"

	"podstead.io/podstead/internal/pod"
)

// Op names what an action does. The arguments that it reads are in brackets.
type Op string

// The operations.
const (
	OpPrepareVolumes  Op = "prepare volumes"
	OpEnsureImage     Op = "ensure image"     // Container
	OpCreateSandbox   Op = "create sandbox"   // Attempt
	OpStartSandbox    Op = "start sandbox"    // ID, or that of the sandbox just created
	OpStopSandbox     Op = "stop sandbox"     // ID of the infra container
	OpRemoveSandbox   Op = "remove sandbox"   // ID, or its name if that is all there is
	OpCreateContainer Op = "create container" // Container, Attempt; ID of the sandbox, or the one just created
	OpStartContainer  Op = "start container"  // Container; ID, or that of the container just created
	OpStopContainer   Op = "stop container"   // Container, ID, Grace
	OpRemoveContainer Op = "remove container" // Container, ID; Grace if MayRun
	OpRemoveVolumes   Op = "remove volumes"
	OpForget          Op = "forget"
)

// Action is one call to make. After lists the indexes, in the same plan, of the
// actions that must have succeeded before it: whatever is not ordered by After
// may run at the same time, and a failure stops only what comes after it.
type Action struct {
	Op        Op
	Container string
	ID        string
	Attempt   int
	Grace     time.Duration
	// MayRun says that it is not known whether it was started: it is stopped first.
	MayRun bool
	Cause  pod.Cause
	Detail string
	// Then is recorded once the action has succeeded, before what comes after.
	Then  *pod.Transition
	After []int
}

// Decision is what Next makes of a snapshot.
type Decision struct {
	// Event is the pod machine's event to fire, empty for none, with its cause.
	Event  string
	Cause  pod.Cause
	Detail string
	// Transitions are those of the container machine that follow from the
	// decision itself; At, Key and UID are left to the caller.
	Transitions []pod.Transition
	// Attempts, Backoffs and Intents are recorded before any action is taken.
	Attempts map[string]int
	Backoffs []pod.Backoff
	Intents  []pod.Intent
	Actions  []Action
	// Again is when to look again if nothing changes before; zero: never.
	Again time.Time
}

// Idle reports whether there is nothing to record and nothing to do.
func (d Decision) Idle() bool {
	return d.Event == "" && len(d.Transitions) == 0 && len(d.Attempts) == 0 && len(d.Backoffs) == 0 && len(d.Actions) == 0
}
