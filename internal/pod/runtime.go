package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// SandboxSpec is everything a runtime needs to make a sandbox.
type SandboxSpec struct {
	Identity
	// Hostname inside the pod; empty with host networking.
	Hostname    string
	HostNetwork bool
	HostPID     bool
	HostIPC     bool
	// Ports lists only those with a host port.
	Ports []PortMapping
	// Labels are the pod's own; the identity's win.
	Labels map[string]string
}

// PortMapping publishes a container port on the host.
type PortMapping struct {
	HostIP        string // empty: all addresses
	HostPort      int32
	ContainerPort int32
	Protocol      corev1.Protocol
}

// ContainerSpec is everything a runtime needs to make a container. Variables
// are already expanded.
type ContainerSpec struct {
	Identity
	SandboxID string
	// Image is the normalised name, ImageID the image to run.
	Image   string
	ImageID string
	// Command replaces the image's entry point and Args its command when not
	// nil, as in Kubernetes: a command without args drops the image's command.
	Command []string
	Args    []string
	Env     []EnvVar
	Mounts  []Mount
	// HostPID shares the host's processes, HostIPC its shared memory and message
	// queues.
	HostPID   bool
	HostIPC   bool
	Resources Resources
	// StopTimeout is the pod's grace period.
	StopTimeout time.Duration
	Annotations map[string]string
}

// EnvVar is one variable.
type EnvVar struct{ Name, Value string }

// Mount binds a host path into a container.
type Mount struct {
	HostPath      string
	ContainerPath string
	ReadOnly      bool
}

// Resources are cgroup settings; a zero value is left unset.
type Resources struct {
	CPUShares   uint64
	CPUQuota    int64  // microseconds a period
	CPUPeriod   uint64 // microseconds
	MemoryLimit int64  // bytes
}

// EventKind is what the runtime says happened.
type EventKind string

// The kinds of runtime event that matter. Others are not reported.
const (
	EventCreated EventKind = "created"
	EventStarted EventKind = "started"
	EventDied    EventKind = "died"
	EventOOM     EventKind = "oom"
	EventStopped EventKind = "stopped" // someone asked the runtime to stop or kill it
	EventPaused  EventKind = "paused"
	EventResumed EventKind = "resumed"
	EventRemoved EventKind = "removed"
	EventImage   EventKind = "image" // images changed; ID is empty
)

// RuntimeEvent is one entry of the runtime's event stream. It is a hint: the
// receiver asks the runtime what is true.
type RuntimeEvent struct {
	Kind EventKind
	// ID is the container's (infra containers included).
	ID string
	// SandboxID is set when the event is about a Podman pod as a whole.
	SandboxID string
	At        time.Time
}

// ImageResult says which image to run and how it was come by.
type ImageResult struct {
	ID string
	// Pulled is true when the registry sent it, with the time that took.
	Pulled   bool
	PullTime time.Duration
	// Warning is not empty when the present image is used because the registry
	// could not be reached.
	Warning string
}
