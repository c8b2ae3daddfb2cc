package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Machine says whose state a transition is of.
type Machine string

// The machines. Their states and events are in internal/lifecycle.
const (
	MachinePod       Machine = "pod"
	MachineContainer Machine = "container"
)

// Transition is one row of history: what changed, and why.
type Transition struct {
	At time.Time
	Key
	UID        types.UID
	Container  string // empty for the pod machine
	Machine    Machine
	From       string
	Event      string
	To         string
	Cause      Cause
	Detail     string
	Generation int64
	Attempt    int
}

// Event is a Kubernetes event about a pod. Equal events are counted, not
// repeated.
type Event struct {
	Type      string // corev1.EventTypeNormal or EventTypeWarning
	Reason    string
	Message   string
	Container string // empty: the pod
}

// Intent is recorded before something destructive is done to a container, so
// that its end can be told from a user's doing, whatever happens to the agent
// in between.
type Intent struct {
	ContainerID string
	Cause       Cause
	Detail      string
}

// Record is one step of the reconciler. It is taken whole or not at all, and
// only while the pod's generation is still Generation and its deletion is
// still as it was planned for; otherwise the store answers Conflict and the
// caller plans again.
type Record struct {
	Key
	UID        types.UID
	Generation int64
	Deleting   bool // whether the plan knew of a deletion
	// State is the pod machine's new state; empty: unchanged.
	State State
	// Status replaces the status document; nil: unchanged.
	Status      *corev1.PodStatus
	Transitions []Transition
	Events      []Event
	Intents     []Intent
	// Attempts raises the highest attempt used, by container name.
	Attempts map[string]int
	// Backoffs are put; a Backoff with Failures 0 is cleared.
	Backoffs []Backoff
	// Forget deletes the pod's row and everything observed of it: it is gone.
	Forget bool
}

// Gone is a sandbox or container that the runtime no longer has.
type Gone struct {
	ID     string
	Cause  Cause // empty: the recorded intent, or else a user
	Detail string
}

// Facts are observations to be written. They hold whatever the desired state
// is, so they are never refused.
//
// A container that has ended gets its EndCause by this precedence: the
// recorded Intent, a reboot, out of memory, the EndCause given here (an
// observer that saw someone ask Podman to stop it gives CauseUser), and else
// CauseExit.
type Facts struct {
	Sandboxes      []Sandbox
	Containers     []Container
	GoneSandboxes  []Gone // their containers are gone with them
	GoneContainers []Gone
	// AsOf is when the runtime was asked, by time.Now: it is compared by its
	// monotonic reading, since the wall clock may jump. Zero: just now. What was
	// recorded since then is not undone by an older answer: a listing does not
	// make gone what was created while it was taken, nor bring back what was
	// removed.
	AsOf time.Time
	// Complete says that this is everything there is: rows not named are gone.
	Complete bool
	// Rebooted says that the machine was restarted since the last listing:
	// whatever was running then was ended by that.
	Rebooted bool
	// Returned says that the runtime answers again after it gave no answer: what
	// failed for that is tried again at once.
	Returned bool
}

// Changes says what a committed transaction touched. Receivers read the truth
// themselves.
type Changes struct {
	// Pods lists the UIDs whose desired or observed rows changed in a way that
	// may call for action.
	Pods []types.UID
}

// SyncResult says what a sync or submit did, by pod key.
type SyncResult struct {
	Created   []Key
	Updated   []Key
	Unchanged []Key
	Removed   []Key
	Conflicts []Rejection
}

// Snapshot is a desired pod and what was observed of it, at one moment.
type Snapshot struct {
	Desired  Desired
	Observed Observation
	// Predecessor is the UID of an earlier incarnation with the same key that
	// is still terminating; empty when there is none. Nothing is started
	// before it is gone.
	Predecessor types.UID
}
