package simulate

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// calls is the way of one agent to the runtime. It is the interfaces of
// reconcile and observe.
type calls struct {
	w    *world
	gate *gate

	mu     sync.Mutex
	counts map[string]uint64
}

// jitter is a delay of less than a millisecond that no two calls share: what
// happens at one moment happens in an order that nobody determines.
func (c *calls) jitter(what string) time.Duration {
	c.mu.Lock()
	c.counts[what]++
	n := c.counts[what]
	c.mu.Unlock()
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %s %d", c.w.plan.Seed, c.w.life, what, n) //nolint:errcheck // a hash takes everything
	return time.Duration(h.Sum64() % uint64(time.Millisecond))
}

// crashed is what the agent's call returns when it will never know.
func crashed() error { return &pod.Error{Class: pod.Unavailable, Op: "call", Err: errDead} }

// call passes one call. The agent can die before it, while it lasts, and after
// it was carried out but before the answer.
func call[T any](ctx context.Context, c *calls, what string, late bool, do func(context.Context) (T, error)) (T, error) {
	var zero T
	time.Sleep(c.jitter(what))
	if c.gate.point() != nil {
		return zero, crashed()
	}
	begun := time.Now()
	out, err := lasting(ctx, c.w, late && c.w.plan.Late, do)
	c.w.trace.call(what, begun, err)
	if c.gate.point() != nil {
		return zero, crashed()
	}
	return out, err
}

// lasting has a call go on when the caller no longer waits for it.
func lasting[T any](ctx context.Context, w *world, late bool, do func(context.Context) (T, error)) (T, error) {
	if !late {
		return do(ctx)
	}
	type answer struct {
		out T
		err error
	}
	answered := make(chan answer, 1)
	own := w.powered
	w.stragglers.Go(func() {
		ctx, cancel := context.WithTimeout(own, 5*time.Minute)
		defer cancel()
		out, err := do(ctx)
		answered <- answer{out, err}
	})
	select {
	case a := <-answered:
		return a.out, a.err
	case <-ctx.Done():
		var zero T
		return zero, &pod.Error{Class: pod.Unavailable, Op: "call", Err: context.Cause(ctx)}
	}
}

type none = struct{}

func (c *calls) CreateSandbox(ctx context.Context, spec pod.SandboxSpec) (pod.Sandbox, error) {
	return call(ctx, c, "create sandbox "+spec.SandboxName(), true, func(ctx context.Context) (pod.Sandbox, error) { return c.w.fake.CreateSandbox(ctx, spec) })
}

func (c *calls) StartSandbox(ctx context.Context, id string) error {
	_, err := call(ctx, c, "start sandbox "+id, true, func(ctx context.Context) (none, error) { return none{}, c.w.fake.StartSandbox(ctx, id) })
	return err
}

func (c *calls) InspectSandbox(ctx context.Context, id string) (pod.Sandbox, error) {
	return call(ctx, c, "inspect sandbox "+id, false, func(ctx context.Context) (pod.Sandbox, error) { return c.w.fake.InspectSandbox(ctx, id) })
}

func (c *calls) RemoveSandbox(ctx context.Context, id string, grace time.Duration) error {
	_, err := call(ctx, c, "remove sandbox "+id, true, func(ctx context.Context) (none, error) { return none{}, c.w.fake.RemoveSandbox(ctx, id, grace) })
	return err
}

func (c *calls) CreateContainer(ctx context.Context, spec pod.ContainerSpec) (pod.Container, error) {
	return call(ctx, c, "create container "+spec.RuntimeName(), true, func(ctx context.Context) (pod.Container, error) { return c.w.fake.CreateContainer(ctx, spec) })
}

func (c *calls) StartContainer(ctx context.Context, id string) (pod.Container, error) {
	out, err := call(ctx, c, "start container "+id, true, func(ctx context.Context) (started, error) {
		out, err := c.w.fake.StartContainer(ctx, id)
		return started{out, err}, nil
	})
	if err != nil {
		return pod.Container{}, err
	}
	return out.container, out.err // a process that can't be started comes with both
}

type started struct {
	container pod.Container
	err       error
}

func (c *calls) StopContainer(ctx context.Context, id string, grace time.Duration) (pod.Container, error) {
	return call(ctx, c, fmt.Sprintf("stop container %s in %s", id, grace), true, func(ctx context.Context) (pod.Container, error) { return c.w.fake.StopContainer(ctx, id, grace) })
}

func (c *calls) RemoveContainer(ctx context.Context, id string) error {
	_, err := call(ctx, c, "remove container "+id, true, func(ctx context.Context) (none, error) { return none{}, c.w.fake.RemoveContainer(ctx, id) })
	return err
}

func (c *calls) InspectContainer(ctx context.Context, id string) (pod.Container, error) {
	return call(ctx, c, "inspect container "+id, false, func(ctx context.Context) (pod.Container, error) { return c.w.fake.InspectContainer(ctx, id) })
}

type listing struct {
	boxes      []pod.Sandbox
	containers []pod.Container
}

func (c *calls) List(ctx context.Context) ([]pod.Sandbox, []pod.Container, error) {
	l, err := call(ctx, c, "list", false, func(ctx context.Context) (l listing, err error) {
		l.boxes, l.containers, err = c.w.fake.List(ctx)
		return l, err
	})
	return l.boxes, l.containers, err
}

func (c *calls) ListImages(ctx context.Context) ([]pod.Image, error) {
	return call(ctx, c, "list images", false, c.w.fake.ListImages)
}

// Events hands events on a little later than they happen, as a socket does.
func (c *calls) Events(ctx context.Context, since time.Time, ready func(), fn func(pod.RuntimeEvent)) error {
	if c.gate.point() != nil {
		return crashed()
	}
	return c.w.fake.Events(ctx, since, ready, func(e pod.RuntimeEvent) {
		time.Sleep(c.jitter("event"))
		if !c.gate.isDead() {
			fn(e)
		}
	})
}

// images and volumes are reconcile.Images and reconcile.Volumes.
type images struct{ *calls }

func (i images) Ensure(ctx context.Context, image string, policy corev1.PullPolicy) (pod.ImageResult, error) {
	return call(ctx, i.calls, "ensure image "+image, false, func(ctx context.Context) (pod.ImageResult, error) {
		return i.w.fake.Images().Ensure(ctx, image, policy)
	})
}

type volumes struct{ *calls }

func (v volumes) Ensure(ctx context.Context, p *corev1.Pod) (map[string]string, error) {
	return call(ctx, v.calls, "ensure volumes "+p.Name, false, func(ctx context.Context) (map[string]string, error) { return v.w.fake.Volumes().Ensure(ctx, p) })
}

func (v volumes) Remove(ctx context.Context, uid types.UID) error {
	_, err := call(ctx, v.calls, "remove volumes "+string(uid), false, func(ctx context.Context) (none, error) { return none{}, v.w.fake.Volumes().Remove(ctx, uid) })
	return err
}

// changing are the calls that change something.
var changing = []runtimetest.Op{
	runtimetest.OpCreateSandbox, runtimetest.OpStartSandbox, runtimetest.OpRemoveSandbox, runtimetest.OpCreateContainer, runtimetest.OpStartContainer,
	runtimetest.OpStopContainer, runtimetest.OpRemoveContainer, runtimetest.OpEnsureVolumes, runtimetest.OpRemoveVolumes, runtimetest.OpEnsureImage,
	runtimetest.OpInspectContainer, runtimetest.OpInspectSandbox,
}

// isCrash reports whether an error is that of an agent which was killed.
func isCrash(err error) bool { return errors.Is(err, errDead) }
