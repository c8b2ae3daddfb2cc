package observe

import (
	"context"
	"time"

	"podstead.io/podstead/internal/pod"
)

// Runtime is the read side of a container runtime. Errors carry a class:
// NotFound when the object is absent, Unavailable when the runtime can't be
// reached or is hung.
type Runtime interface {
	// List returns everything that carries this node's labels. A listing may know
	// whole seconds only, and leave out addresses, errors and why a container
	// ended. It costs the runtime much more than an Inspect.
	List(ctx context.Context) ([]pod.Sandbox, []pod.Container, error)
	InspectSandbox(ctx context.Context, id string) (pod.Sandbox, error)
	InspectContainer(ctx context.Context, id string) (pod.Container, error)
	// Events calls fn for each event about this node's objects since the given
	// time (zero: from now) until the context ends or the stream breaks, which
	// is an error of class Unavailable. ready is called once the stream is open:
	// what happens after that is not missed.
	Events(ctx context.Context, since time.Time, ready func(), fn func(pod.RuntimeEvent)) error
	ListImages(ctx context.Context) ([]pod.Image, error)
}

// Store is where observations go.
type Store interface {
	Observe(ctx context.Context, f pod.Facts) error
	// ObserveImages replaces the whole set of images, writing only differences.
	ObserveImages(ctx context.Context, images []pod.Image) error
	// Sandbox and Container read back what was last observed; NotFound if never.
	Sandbox(ctx context.Context, id string) (pod.Sandbox, error)
	Container(ctx context.Context, id string) (pod.Container, error)
}
