package runtimetest

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// Sandboxes are all sandboxes of this node as they are, past the API service
// and its log of calls.
func (f *Fake) Sandboxes() []pod.Sandbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listing().sandboxes
}

// Containers are all its containers as they are, oldest first.
func (f *Fake) Containers() []pod.Container {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listing().containers
}

// Live are the live containers of a pod, of one name or all if it is empty.
func (f *Fake) Live(uid types.UID, name string) []pod.Container {
	return slices.DeleteFunc(f.Containers(), func(c pod.Container) bool {
		return !c.State.Live() || c.UID != uid || name != "" && c.Container != name
	})
}

// Runs reports whether a process of the container with this ID is there, whoever
// made it.
func (f *Fake) Runs(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[id]
	return c != nil && c.State.Live()
}

// Connected reports whether a container is in the network that its sandbox has
// now, and not in that of an infra container that has ended.
func (f *Fake) Connected(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[id]
	if c == nil || !c.State.Live() {
		return false
	}
	b := f.sandboxes[c.SandboxID]
	return b != nil && b.State.Live() && c.network == b.infra.runs
}

// Reported are the events so far, heard or not.
func (f *Fake) Reported() []pod.RuntimeEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.stream.all)
}

// Violations says where the runtime was made to do what must never be done: two
// live containers of one name in one pod.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}
