// Package pod holds the words that every other package shares: what a source
// wants (Submission, Desired), what the runtime has (Sandbox, Container), how
// the two are named and labelled, and the classes of error.
//
// It owns no goroutine and does no I/O.
package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Key names a pod. At most one desired pod has a given key at any time.
type Key struct {
	Namespace string
	Name      string
}

// String is "namespace/name".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// SourceKind says how manifests reach the agent.
type SourceKind string

// The kinds of source.
const (
	SourceDirectory SourceKind = "directory"
	SourceURL       SourceKind = "url"
	SourceHTTP      SourceKind = "http"
)

// Static reports whether pods of this kind of source get the node's name as a
// suffix and a UID derived from their place, as kubelet's static pods do.
func (k SourceKind) Static() bool { return k == SourceDirectory || k == SourceURL }

// Source is one origin of manifests. ID is unique on a node and stable across
// restarts: "directory:/etc/podstead/manifests", "url:https://…", "http".
type Source struct {
	ID       string
	Kind     SourceKind
	Location string
}

// Submission is one pod that a source wants, decoded, named, defaulted by this
// binary and validated.
type Submission struct {
	// Pod is defaulted. Namespace and name are final: the static suffix is
	// already on.
	Pod *corev1.Pod
	// Manifest is the canonical JSON of the pod as submitted: final name and
	// namespace, no defaults, server-owned fields dropped. Decoding it again
	// with manifest.Restore gives Pod.
	Manifest []byte
	// Hash is the SHA-256 of Manifest, in hex.
	Hash string
	// Unit is the file, URL or request that the pod came in; Place is the
	// document within it ("web.yaml", "web.yaml#2", "web.yaml#1.items[3]").
	Unit  string
	Place string
	// Warnings name fields that were accepted but have no effect.
	Warnings []string
}

// Key is the pod's namespace and name.
func (s Submission) Key() Key { return Key{Namespace: s.Pod.Namespace, Name: s.Pod.Name} }

// RejectionReason says why a manifest was not taken.
type RejectionReason string

// The reasons of rejections.
const (
	RejectedUnreadable RejectionReason = "Unreadable" // the file or URL could not be read
	RejectedSyntax     RejectionReason = "Syntax"     // not YAML or JSON, wrong encoding, too large
	RejectedInvalid    RejectionReason = "Invalid"    // a field is wrong or not supported
	RejectedConflict   RejectionReason = "Conflict"   // another source owns the name
)

// FieldError is one thing wrong with one field.
type FieldError struct {
	Field   string // path such as spec.containers[0].image; empty for the whole document
	Reason  string // FieldValueRequired, FieldValueInvalid, … as in metav1.CauseType
	Message string
	Line    int // 1-based line within the unit; 0 when not known
}

// Rejection is a manifest that was refused, with everything wrong with it.
type Rejection struct {
	Unit   string
	Place  string
	Key    Key // as far as it could be told
	Reason RejectionReason
	Errors []FieldError
}

// SourceSet is everything that a source wants at one time, or what some of its
// units do.
type SourceSet struct {
	// Units are those that the set speaks of; nil: all. A unit that is named and
	// has no pods is gone.
	Units      []string
	Pods       []Submission
	Rejections []Rejection
	// Incomplete lists units whose content could not be taken whole: pods of
	// these units that are missing from Pods are kept as they were.
	Incomplete []string
	// Gone lists units that are no longer there, for the record only.
	Gone []string
}

// Covers reports whether the set speaks of the unit.
func (s SourceSet) Covers(unit string) bool { return s.Units == nil || slices.Contains(s.Units, unit) }

// Keeps reports whether pods of the unit that are missing from the set stay as
// they were.
func (s SourceSet) Keeps(unit string) bool {
	return !s.Covers(unit) || slices.Contains(s.Incomplete, unit)
}

// State is a state of the pod machine; see internal/lifecycle for the table.
type State string

// The states of the pod machine.
const (
	StateNone        State = "" // before the first transition
	StatePending     State = "Pending"
	StateRunning     State = "Running"
	StateSucceeded   State = "Succeeded"
	StateFailed      State = "Failed"
	StateEvicted     State = "Evicted"
	StateTerminating State = "Terminating"
	StateGone        State = "Gone" // only in history: the row is deleted with it
)

// Cause says who or what brought a transition about.
type Cause string

// The causes of transitions.
const (
	CauseSource    Cause = "source"    // a manifest was added, edited or removed
	CauseUser      Cause = "user"      // someone used podman, or asked through the API
	CauseProbe     Cause = "probe"     // a probe failed
	CauseExit      Cause = "exit"      // the process ended by itself
	CauseOOM       Cause = "oom"       // the kernel killed it for memory
	CauseEviction  Cause = "eviction"  // the agent evicted the pod
	CauseReboot    Cause = "reboot"    // the machine was restarted
	CauseAdmission Cause = "admission" // the pod does not fit the node
	CauseImage     Cause = "image"     // an image could not be had
	CauseRuntime   Cause = "runtime"   // Podman refused or failed
	CauseAgent     Cause = "agent"     // the agent's own plan, following from the others
)

// ContainerKind tells init containers from the rest.
type ContainerKind string

// The kinds of container. KindSandbox is the infra (pause) container.
const (
	KindSandbox   ContainerKind = "sandbox"
	KindInit      ContainerKind = "init"
	KindContainer ContainerKind = "container"
)

// Desired is what the store holds of one wanted pod. It is a snapshot: nobody
// changes it in place.
type Desired struct {
	Key
	UID         types.UID
	Source      Source
	Unit        string
	Place       string
	Incarnation int64
	// Generation counts accepted edits, from 1.
	Generation int64
	// Revision differs from all others that the pod has had since a pod-wide
	// change, or was given for an edit that was lost. The sandbox carries it.
	Revision int64
	// Pod is the manifest defaulted by this binary, UID included.
	Pod *corev1.Pod
	// Unreadable says why this binary can't read the manifest, which another one
	// had accepted; Pod is as much of it as can be shown then. Empty: it can.
	Unreadable string
	Hash       string
	// Containers has init containers first, in manifest order, then the rest.
	Containers []DesiredContainer
	CreatedAt  time.Time
	// Deletion is nil while the pod is wanted.
	Deletion *Deletion

	State      State
	StateSince time.Time
	// Status is the last status document written; empty at first.
	Status   corev1.PodStatus
	Backoffs []Backoff
}

// DesiredContainer is one container of a desired pod.
type DesiredContainer struct {
	Name    string
	Kind    ContainerKind
	Ordinal int
	Image   string
	// Revision is that of this container's defaulted spec.
	Revision int64
	// Attempt is the highest attempt ever used, −1 before the first.
	Attempt int
}

// Deletion is a recorded wish to be gone.
type Deletion struct {
	RequestedAt time.Time
	// Grace is counted from RequestedAt.
	Grace  time.Duration
	Cause  Cause
	Detail string
}

// BackoffKind is the operation that is being backed off.
type BackoffKind string

// The kinds of back-off.
const (
	BackoffCrash   BackoffKind = "crash"   // the container keeps ending
	BackoffImage   BackoffKind = "image"   // its image can't be had
	BackoffCreate  BackoffKind = "create"  // it can't be created or started
	BackoffSandbox BackoffKind = "sandbox" // the sandbox can't be made; Container is empty
	BackoffVolume  BackoffKind = "volume"  // a volume can't be made ready; Container is empty
	BackoffRemove  BackoffKind = "remove"  // something can't be stopped or removed; Container is empty
)

// Backoff is persisted, so that restarting the agent does not restart the
// doubling.
type Backoff struct {
	Container string
	Kind      BackoffKind
	Failures  int
	// Until is when the next try may be made.
	Until time.Time
	// LastAt is when the last failure was.
	LastAt time.Time
	// Reason is a Kubernetes waiting reason such as ErrImagePull; Message is
	// what the runtime or registry said.
	Reason  string
	Message string
	// Unavailable says that the runtime gave no answer; see Facts.Returned.
	Unavailable bool
}

// RunState is the state of a sandbox or container in the runtime.
type RunState string

// The run states. Gone is kept for the latest attempt of a wanted container
// that was removed, so that restart policy can still be judged.
const (
	RunCreated RunState = "created"
	RunRunning RunState = "running"
	RunPaused  RunState = "paused"
	RunExited  RunState = "exited"
	RunGone    RunState = "gone"
	RunUnknown RunState = "unknown" // the runtime has it and can't say; treated as not running
)

// Live reports whether processes may be there.
func (s RunState) Live() bool { return s == RunRunning || s == RunPaused }

// Sandbox is a Podman pod with its infra container.
type Sandbox struct {
	Key
	UID      types.UID
	ID       string // the Podman pod's ID
	InfraID  string
	Name     string
	Attempt  int
	Revision int64
	Hash     string
	// State is the infra container's.
	State RunState
	// Run counts the runs of the infra container that the store has seen, 0
	// before the first. The runtime does not know it.
	Run       int
	IPs       []string // primary first; empty with host networking
	CreatedAt time.Time
	StartedAt time.Time // zero until started
	ExitedAt  time.Time
}

// Container is one attempt at a container, as the runtime has it.
type Container struct {
	Key
	UID       types.UID
	Container string // the container's name in the pod
	Kind      ContainerKind
	ID        string
	Name      string // Podman's name
	SandboxID string
	// SandboxRun is the run of the sandbox in which it was started, and whose
	// network it has; 0 before its start. The runtime does not know it.
	SandboxRun int
	Attempt    int
	Revision   int64
	State      RunState
	Image      string // as asked for
	ImageID    string
	PID        int // in the agent's PID namespace; 0 when not running
	ExitCode   int
	OOMKilled  bool
	// Error is what the runtime said when the process could not be started.
	Error      string
	LogPath    string
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	// EndCause and EndDetail say why it ended, when it has: recorded intent
	// first, then what the runtime reported.
	EndCause  Cause
	EndDetail string
}

// Observation is everything observed of one pod.
type Observation struct {
	Sandboxes  []Sandbox
	Containers []Container
	// Images maps each image name that the pod's containers ask for to the
	// ID of the image present under that name; absent names are missing.
	Images map[string]string
}

// Image is an image that the runtime holds.
type Image struct {
	ID        string
	Names     []string // normalised, with tag
	Digests   []string
	SizeBytes int64
	CreatedAt time.Time
}
