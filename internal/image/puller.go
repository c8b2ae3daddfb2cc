// Package image makes sure that the image a container asks for is present, under
// its pull policy.
//
// In goes a normalised name and a policy; out comes the ID of the image to run.
// What is present is asked of the container runtime, which also fetches. What a
// name stands for is asked of the registry first, by the agent itself: the
// runtime reports a failed pull as text only, whereas the registry's own answer
// tells "there is no such image" from "nobody answers", and says for the price
// of one request that the present image is already the right one. So an offline
// node starts with what it has, and a wrong name is not tried for ever.
//
// The package owns one goroutine per image that is being fetched. They end with
// the fetch, a while after the last caller gave up on it, or with Close.
package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containers/image/v5/docker/reference"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// Runtime holds images. Errors carry a class: NotFound when there is no image
// under the name, Unavailable when the runtime can't be reached. Both calls may
// be repeated; pulling what is present brings it up to date.
type Runtime interface {
	InspectImage(ctx context.Context, name string) (pod.Image, error)
	// PullImage fetches what the registry has under the name. It ends when the
	// context does.
	PullImage(ctx context.Context, name string) error
}

// Resolver asks registries what a name stands for.
type Resolver interface {
	// Resolve returns the digest that the registry has for the normalised name.
	// It limits its own time. Class Invalid when the registry answers that there
	// is no such image or that access is denied, Unavailable when it gives no
	// answer that settles it.
	Resolve(ctx context.Context, name string) (digest.Digest, error)
}

// fetchLimit ends a fetch that makes no progress and does not fail either. A
// gigabyte takes two hours and a quarter at a megabit a second.
const fetchLimit = 6 * time.Hour

// Config is what a Puller needs.
type Config struct {
	Runtime  Runtime
	Resolver Resolver
	// MaxParallelPulls bounds pulls at a time; at least 1.
	MaxParallelPulls int
}

// Puller fetches images as their pull policies say.
type Puller struct {
	runtime  Runtime
	resolver Resolver
	slots    chan struct{}
	fetches  fetches
}

// New makes a Puller. Close it.
func New(c Config) *Puller {
	return &Puller{
		runtime:  c.Runtime,
		resolver: c.Resolver,
		slots:    make(chan struct{}, max(1, c.MaxParallelPulls)),
		fetches:  fetches{byImage: map[string]*fetch{}},
	}
}

// Close ends every fetch and waits for them. Callers get class Unavailable.
func (p *Puller) Close() { p.fetches.close() }

// Ensure returns the image to run for a normalised name. Calls for the same
// image share one fetch, which goes on while any of them waits. Under Always
// the present image is used, with a warning, when the registry gives no answer.
//
// Errors: NotFound under Never when the image is absent; Invalid when the
// registry answers that there is no such image or that access is denied, even
// if one is present (as kubelet has it under Always); Unavailable when neither
// the registry nor the node has it, or the runtime can't say.
func (p *Puller) Ensure(ctx context.Context, name string, policy corev1.PullPolicy) (pod.ImageResult, error) {
	if policy != corev1.PullAlways {
		present, err := p.runtime.InspectImage(ctx, name)
		switch {
		case err == nil:
			return pod.ImageResult{ID: present.ID}, nil
		case !errors.Is(err, pod.NotFound):
			return pod.ImageResult{}, err
		case policy == corev1.PullNever:
			return pod.ImageResult{}, &pod.Error{Class: pod.NotFound, Op: "find image", Object: name,
				Err: errors.New("it is not present and imagePullPolicy is Never: load it with `podman pull` or `podman load`")}
		}
	}
	return p.fetches.join(ctx, name, func(ctx context.Context) (pod.ImageResult, error) {
		return p.fetch(ctx, name)
	})
}

// fetch brings the image up to date with the registry.
func (p *Puller) fetch(ctx context.Context, name string) (pod.ImageResult, error) {
	present, err := p.runtime.InspectImage(ctx, name)
	switch {
	case err != nil && !errors.Is(err, pod.NotFound):
		return pod.ImageResult{}, err
	case present.ID != "" && pinned(name):
		// A digest names its content: no registry could send anything else.
		return pod.ImageResult{ID: present.ID}, nil
	}
	want, err := p.resolver.Resolve(ctx, name)
	switch {
	case err == nil && has(present, want):
		return pod.ImageResult{ID: present.ID}, nil
	case err == nil:
		return p.pull(ctx, name, present)
	case usable(ctx, present, err):
		return stale(present, err), nil
	default:
		return pod.ImageResult{}, pullError(name, err)
	}
}

// pull has the runtime fetch the image. The runtime doesn't say why a pull
// failed, so the registry is asked again: if it is gone, the present image is as
// good as if it had been gone before.
func (p *Puller) pull(ctx context.Context, name string, present pod.Image) (pod.ImageResult, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return pod.ImageResult{}, pullError(name, context.Cause(ctx))
	}
	began := time.Now()
	if err := p.runtime.PullImage(ctx, name); err != nil {
		if present.ID != "" {
			if _, gone := p.resolver.Resolve(ctx, name); usable(ctx, present, gone) {
				return stale(present, gone), nil
			}
		}
		return pod.ImageResult{}, pullError(name, err)
	}
	took := time.Since(began)
	pulled, err := p.runtime.InspectImage(ctx, name)
	if err != nil {
		return pod.ImageResult{}, err
	}
	return pod.ImageResult{ID: pulled.ID, Pulled: true, PullTime: took}, nil
}

// usable reports whether the present image may stand in: there is one, and the
// registry did not answer for a reason other than that the fetch was ended.
func usable(ctx context.Context, present pod.Image, err error) bool {
	return present.ID != "" && ctx.Err() == nil && errors.Is(err, pod.Unavailable)
}

func stale(present pod.Image, err error) pod.ImageResult {
	return pod.ImageResult{ID: present.ID, Warning: fmt.Sprintf("using the image that is present: %v", err)}
}

// pullError gives a failed pull its class. Only the registry's own refusal is
// final; everything else may pass.
func pullError(name string, err error) error {
	class := pod.Unavailable
	if errors.Is(err, pod.Invalid) {
		class = pod.Invalid
	}
	return &pod.Error{Class: class, Op: "pull image", Object: name, Err: err}
}

// pinned reports whether the name carries a digest.
func pinned(name string) bool {
	ref, err := reference.ParseNamed(name)
	if err != nil {
		return false
	}
	_, ok := ref.(reference.Canonical)
	return ok
}

// has reports whether the image came from a manifest with this digest. The
// runtime keeps the digest of the list that a manifest was chosen from, too.
func has(image pod.Image, want digest.Digest) bool {
	return image.ID != "" && slices.ContainsFunc(image.Digests, func(d string) bool {
		// Either a bare digest or repository@digest.
		_, after, found := strings.Cut(d, "@")
		return d == want.String() || found && after == want.String()
	})
}
