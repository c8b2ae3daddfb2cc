package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

const (
	// callTimeout is more than any call takes on a slow machine.
	callTimeout = time.Minute
	// patience is how long an event may take to arrive.
	patience = 30 * time.Second
	// oomLimit is the memory limit of a container that is to exceed it.
	oomLimit = 16 << 20
)

// clause is one thing that the interfaces in internal/reconcile and
// internal/observe promise.
type clause struct {
	name  string
	check func(t *trial)
}

// Conformance checks every promise on the runtime that start gives. The clauses
// share it, each with pods of its own; those that disturb the service come last.
func Conformance(t *testing.T, start func(t *testing.T) Harness) {
	h := start(t)
	clauses := slices.Concat(sandboxClauses, containerClauses, stopClauses, observeClauses, foreignClauses)
	if h.OOM {
		clauses = append(clauses, clause{"a container killed for lack of memory says so", outOfMemory})
	}
	for i, c := range append(clauses, serviceClauses...) {
		t.Run(c.name, func(t *testing.T) {
			c.check(&trial{T: t, h: h, number: i})
		})
	}
}

// trial is one clause being checked.
type trial struct {
	*testing.T
	h      Harness
	number int
	pods   int
}

// ctx is a context for one call.
func (t *trial) ctx() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}

// must fails the clause at once.
func (t *trial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v (class %q)", err, pod.ClassOf(err))
	}
}

func (t *trial) wantClass(err error, class pod.Class) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error %v of class %q; want class %q", err, pod.ClassOf(err), class)
	}
}

// spec is a sandbox of a pod that no other clause has.
func (t *trial) spec() pod.SandboxSpec {
	t.pods++
	name := fmt.Sprintf("conform-%d-%d", t.number, t.pods)
	return pod.SandboxSpec{
		Identity: pod.Identity{
			Key: pod.Key{Namespace: "default", Name: name}, UID: types.UID("uid-" + name), Node: t.h.Node,
			Kind: pod.KindSandbox, Container: pod.SandboxContainerName, Revision: 1, Hash: "aaaa",
		},
		Hostname: name,
		Labels:   map[string]string{"app": "conform"},
	}
}

// create makes a sandbox that goes with the clause.
func (t *trial) create(spec pod.SandboxSpec) pod.Sandbox {
	t.Helper()
	b, err := t.h.Runtime.CreateSandbox(t.ctx(), spec)
	t.must(err)
	t.removeLater(b)
	return b
}

func (t *trial) removeLater(b pod.Sandbox) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if err := t.h.Runtime.RemoveSandbox(ctx, b.ID, 0); err != nil {
			t.Errorf("remove sandbox %s: %v", b.Name, err)
		}
	})
}

// running is a sandbox that runs.
func (t *trial) running() (pod.SandboxSpec, pod.Sandbox) {
	t.Helper()
	spec := t.spec()
	return spec, t.start(t.create(spec).ID)
}

// start starts a sandbox and describes it.
func (t *trial) start(id string) pod.Sandbox {
	t.Helper()
	t.must(t.h.Runtime.StartSandbox(t.ctx(), id))
	b, err := t.h.Runtime.InspectSandbox(t.ctx(), id)
	t.must(err)
	return b
}

// containerSpec is a container in the sandbox whose process does as told. Its
// name is the clause's own.
func (t *trial) containerSpec(spec pod.SandboxSpec, b pod.Sandbox, s Script) pod.ContainerSpec {
	name := fmt.Sprintf("c%d-%d", t.number, t.pods)
	id := spec.Identity
	id.Kind, id.Container = pod.KindContainer, name
	return pod.ContainerSpec{
		Identity: id, SandboxID: b.ID, Image: t.h.Image, ImageID: t.h.ImageID,
		Command: t.h.Machine.Command(name, s), StopTimeout: time.Second,
	}
}

// created is a container that was not started, started one that runs.
func (t *trial) created(s Script) (pod.Sandbox, pod.Container) {
	t.Helper()
	spec, b := t.running()
	c, err := t.h.Runtime.CreateContainer(t.ctx(), t.containerSpec(spec, b, s))
	t.must(err)
	return b, c
}

func (t *trial) started(s Script) (pod.Sandbox, pod.Container) {
	t.Helper()
	b, c := t.created(s)
	c, err := t.h.Runtime.StartContainer(t.ctx(), c.ID)
	t.must(err)
	return b, c
}

func (t *trial) inspect(id string) pod.Container {
	t.Helper()
	c, err := t.h.Observer.InspectContainer(t.ctx(), id)
	t.must(err)
	return c
}

// listed finds the objects of a pod in a listing.
func (t *trial) listed(uid types.UID) (boxes []pod.Sandbox, containers []pod.Container) {
	t.Helper()
	boxes, containers, err := t.h.Observer.List(t.ctx())
	t.must(err)
	boxes = slices.DeleteFunc(boxes, func(b pod.Sandbox) bool { return b.UID != uid })
	return boxes, slices.DeleteFunc(containers, func(c pod.Container) bool { return c.UID != uid })
}

// recorder keeps the events of one stream.
type recorder struct {
	mu     sync.Mutex
	events []pod.RuntimeEvent
	news   chan struct{}
	err    chan error
	cancel context.CancelFunc
}

// record follows events, from the given time or from now, and returns once the
// stream is open.
func (t *trial) record(since time.Time) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := &recorder{news: make(chan struct{}, 1), err: make(chan error, 1), cancel: cancel}
	open := make(chan struct{})
	go func() { r.err <- t.h.Observer.Events(ctx, since, func() { close(open) }, r.add) }()
	select {
	case <-open:
	case err := <-r.err:
		t.Fatalf("the event stream did not open: %v", err)
	case <-time.After(patience):
		t.Fatalf("the event stream did not open in %s", patience)
	}
	return r
}

func (r *recorder) add(e pod.RuntimeEvent) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *recorder) find(is func(pod.RuntimeEvent) bool) (pod.RuntimeEvent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.events, is)
	if i < 0 {
		return pod.RuntimeEvent{}, false
	}
	return r.events[i], true
}

// await waits for an event of a kind about a container.
func (t *trial) await(r *recorder, kind pod.EventKind, id string) pod.RuntimeEvent {
	t.Helper()
	return t.awaitEvent(r, string(kind)+" of "+id, func(e pod.RuntimeEvent) bool { return e.Kind == kind && e.ID == id })
}

func (t *trial) awaitEvent(r *recorder, what string, is func(pod.RuntimeEvent) bool) pod.RuntimeEvent {
	t.Helper()
	over := time.After(patience)
	for {
		if e, ok := r.find(is); ok {
			return e
		}
		select {
		case <-r.news:
		case <-over:
			t.Fatalf("no event %q in %s; seen: %#v", what, patience, r.events)
		}
	}
}

// end ends the recording and returns the stream's error.
func (t *trial) end(r *recorder) error {
	t.Helper()
	r.cancel()
	return t.broken(r)
}

// broken waits for the stream to end and returns its error.
func (t *trial) broken(r *recorder) error {
	t.Helper()
	select {
	case err := <-r.err:
		return err
	case <-time.After(patience):
		t.Fatalf("the event stream did not end in %s", patience)
		return nil
	}
}
