package runtimetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
)

type listing struct {
	sandboxes  []pod.Sandbox
	containers []pod.Container
}

// List implements the interface in internal/observe. Like Podman's, a listing
// knows whole seconds only, and neither addresses nor why a container ended.
func (f *Fake) List(ctx context.Context) ([]pod.Sandbox, []pod.Container, error) {
	l, err := act(ctx, f, Call{Op: OpList}, func(*call) (listing, error) { return f.listing().coarse(), nil })
	return l.sandboxes, l.containers, err
}

func (l listing) coarse() listing {
	for i := range l.sandboxes {
		b := &l.sandboxes[i]
		b.IPs = nil
		for _, at := range []*time.Time{&b.CreatedAt, &b.StartedAt, &b.ExitedAt} {
			*at = at.Truncate(time.Second)
		}
	}
	for i := range l.containers {
		c := &l.containers[i]
		c.OOMKilled, c.LogPath = false, ""
		for _, at := range []*time.Time{&c.CreatedAt, &c.StartedAt, &c.FinishedAt} {
			*at = at.Truncate(time.Second)
		}
	}
	return l
}

func (f *Fake) listing() (l listing) {
	for _, id := range slices.Sorted(maps.Keys(f.sandboxes)) {
		if b := f.sandboxes[id]; f.mine(b.identity) {
			l.sandboxes = append(l.sandboxes, b.Sandbox)
		}
	}
	for _, c := range f.sorted() {
		if f.mine(c.identity) && c.Kind != pod.KindSandbox {
			l.containers = append(l.containers, c.Container)
		}
	}
	return l
}

// sorted are all containers, oldest first.
func (f *Fake) sorted() []*container {
	return slices.SortedFunc(maps.Values(f.containers), func(a, b *container) int { return cmp.Compare(a.ID[1:], b.ID[1:]) })
}

// InspectSandbox implements the interface in internal/observe.
func (f *Fake) InspectSandbox(ctx context.Context, id string) (pod.Sandbox, error) {
	return act(ctx, f, Call{Op: OpInspectSandbox, Object: id}, func(k *call) (pod.Sandbox, error) {
		b, err := f.mySandbox(k.Op, id)
		if err != nil {
			return pod.Sandbox{}, err
		}
		return b.Sandbox, nil
	})
}

// InspectContainer implements the interface in internal/observe.
func (f *Fake) InspectContainer(ctx context.Context, id string) (pod.Container, error) {
	return act(ctx, f, Call{Op: OpInspectContainer, Object: id}, func(k *call) (pod.Container, error) {
		c, err := f.myContainer(k.Op, id)
		if err != nil {
			return pod.Container{}, err
		}
		return c.Container, nil
	})
}

// ListImages implements the interface in internal/observe.
func (f *Fake) ListImages(ctx context.Context) ([]pod.Image, error) {
	return act(ctx, f, Call{Op: OpListImages}, func(*call) ([]pod.Image, error) { return f.images.list(), nil })
}
