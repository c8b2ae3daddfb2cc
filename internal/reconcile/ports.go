package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// Runtime makes and ends sandboxes and containers. Every call obeys its
// context, whose deadline the caller sets, and every error carries a class:
// Invalid when the runtime refuses the request for good, Conflict when a name
// is in use by something that is not Podstead's, Unavailable when it can't be
// reached, is hung or busy, NotFound when the object acted on does not exist.
//
// Every call may be repeated after any failure, a crash included: creating what
// exists already under the same name and with the same identity, hash aside,
// returns it, and takes the name from an earlier revision of the same pod's;
// starting what runs, stopping what does not and removing what is absent
// succeeds.
type Runtime interface {
	CreateSandbox(ctx context.Context, spec pod.SandboxSpec) (pod.Sandbox, error)
	// StartSandbox starts the infra container and nothing else.
	StartSandbox(ctx context.Context, id string) error
	// InspectSandbox describes a sandbox, addresses included.
	InspectSandbox(ctx context.Context, id string) (pod.Sandbox, error)
	// RemoveSandbox ends and removes the Podman pod of that ID or name with all its
	// containers, allowing those that still run the grace given (0: kill).
	RemoveSandbox(ctx context.Context, id string, grace time.Duration) error
	CreateContainer(ctx context.Context, spec pod.ContainerSpec) (pod.Container, error)
	// StartContainer starts a created container; one that has run and ended is
	// returned as it is. A process that can't be started (no such command, no
	// such device) is class Invalid, and the container comes with the error.
	StartContainer(ctx context.Context, id string) (pod.Container, error)
	// StopContainer sends the stop signal, waits for the grace, kills, and
	// returns the container as it ended. Infra containers can be stopped too.
	StopContainer(ctx context.Context, id string, grace time.Duration) (pod.Container, error)
	RemoveContainer(ctx context.Context, id string) error
}

// Images makes sure that an image is present.
type Images interface {
	// Ensure returns the ID of the image to run for the normalised name under
	// the policy, pulling when the policy asks for it. It may be repeated.
	// Errors: NotFound when the policy is Never and the image is absent,
	// Invalid when the registry answers that there is no such image or access
	// is denied, Unavailable when the registry can't be reached.
	Ensure(ctx context.Context, image string, policy corev1.PullPolicy) (pod.ImageResult, error)
}

// Volumes prepares and removes the node's side of a pod's volumes.
type Volumes interface {
	// Ensure makes every volume of the pod ready and returns the host path of
	// each by volume name. It is idempotent, and survives reboots: what was
	// lost is made anew. Class Invalid: the node does not have what the pod
	// asks for (a hostPath of the wrong type); that may change, so the caller
	// backs off and tries again.
	Ensure(ctx context.Context, p *corev1.Pod) (map[string]string, error)
	// Remove removes everything that Ensure made for the UID; absent is fine.
	Remove(ctx context.Context, uid types.UID) error
}

// Store is what the loop reads and records.
type Store interface {
	// Load is a snapshot of one pod in one transaction. NotFound when the pod
	// is not desired (any more).
	Load(ctx context.Context, uid types.UID) (pod.Snapshot, error)
	// UIDs lists every desired pod, those being deleted included.
	UIDs(ctx context.Context) ([]types.UID, error)
	// Orphans lists what was observed of pods that nobody desires. It is empty
	// until every source has synced once.
	Orphans(ctx context.Context) ([]pod.Observation, error)
	// Commit records a step; see pod.Record.
	Commit(ctx context.Context, r pod.Record) error
	// Observe records what a runtime call returned, exactly as events are.
	Observe(ctx context.Context, f pod.Facts) error
}
