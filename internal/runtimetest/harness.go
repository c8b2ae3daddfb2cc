package runtimetest

import (
	"context"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/reconcile"
)

// Harness is a runtime to be tried by Conformance, and the means to disturb it.
type Harness struct {
	Runtime  reconcile.Runtime
	Observer Observer
	// Node is the identity whose labels the runtime looks for.
	Node string
	// Image is the normalised name of an image that is present, ImageID its ID.
	Image   string
	ImageID string
	Machine Machine
	Service Service
	// OOM says that the machine can enforce a memory limit.
	OOM bool
}

// Observer is the read side of a runtime, as internal/observe declares it.
type Observer interface {
	List(ctx context.Context) ([]pod.Sandbox, []pod.Container, error)
	InspectSandbox(ctx context.Context, id string) (pod.Sandbox, error)
	InspectContainer(ctx context.Context, id string) (pod.Container, error)
	Events(ctx context.Context, since time.Time, ready func(), fn func(pod.RuntimeEvent)) error
	ListImages(ctx context.Context) ([]pod.Image, error)
}

// Machine is what happens to containers past the runtime under test, and the
// truth about them. What it can't do fails the test.
type Machine interface {
	// Command is a command line in Image that does what the script says in the
	// container of that name. With OOM it uses up more memory than oomLimit.
	Command(container string, s Script) []string
	// KillProcess sends SIGKILL to the process of a container, or of an infra
	// container.
	KillProcess(id string)
	// StopByHand, Pause and RemoveBehind are podman stop, pause and rm --force.
	StopByHand(id string)
	Pause(id string)
	RemoveBehind(id string)
	// Foreign runs a container that the runtime did not make, and returns its ID.
	Foreign(name string, labels map[string]string) string
	// Runs reports whether a process of the container is there.
	Runs(id string) bool
}

// Service is the API service of the runtime. Containers don't depend on it.
type Service interface {
	Stop()
	Start()
	// Pause stops it where it is, so that it hangs; Resume lets it go on.
	Pause()
	Resume()
}
