package runtimetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// Answer is what a registry says about an image.
type Answer int

// The answers. A registry that nobody described can't be reached.
const (
	RegistryUnreachable Answer = iota
	RegistryHas
	RegistryHasNot
	RegistryDenies
)

// Registry is how the registry of one image behaves.
type Registry struct {
	Answer Answer
	// Takes is how long it takes to answer, or to send the image.
	Takes time.Duration
}

// ImageStore implements reconcile.Images over the images of a Fake.
type ImageStore struct {
	f        *Fake
	present  map[string]pod.Image // by name
	registry map[string]Registry
	pulls    int
}

// Images are the images that the runtime holds and the registries behind them.
func (f *Fake) Images() *ImageStore { return f.images }

// Add makes an image present under the normalised names and returns its ID.
func (s *ImageStore) Add(names ...string) string {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.add(names...)
}

func (s *ImageStore) add(names ...string) string {
	s.f.serial++
	image := pod.Image{ID: fmt.Sprintf("%064x", s.f.serial), Names: names, SizeBytes: 1 << 20, CreatedAt: s.f.now()}
	for _, n := range names {
		s.present[n] = image
	}
	s.f.report(pod.RuntimeEvent{Kind: pod.EventImage})
	return image.ID
}

// Remove takes a name away, and with the last one its image.
func (s *ImageStore) Remove(name string) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	delete(s.present, name)
	s.f.report(pod.RuntimeEvent{Kind: pod.EventImage})
}

// SetRegistry says how the registry answers about the name.
func (s *ImageStore) SetRegistry(name string, r Registry) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.registry[name] = r
}

// Pulls is how many images registries have sent.
func (s *ImageStore) Pulls() int {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.pulls
}

func (s *ImageStore) has(id string) bool {
	for _, i := range s.present {
		if i.ID == id {
			return true
		}
	}
	return false
}

func (s *ImageStore) list() []pod.Image {
	names := map[string][]string{}
	images := map[string]pod.Image{}
	for _, name := range slices.Sorted(maps.Keys(s.present)) {
		i := s.present[name]
		images[i.ID], names[i.ID] = i, append(names[i.ID], name)
	}
	out := make([]pod.Image, 0, len(images))
	for id, i := range images {
		i.Names = names[id]
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b pod.Image) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Ensure implements reconcile.Images.
func (s *ImageStore) Ensure(ctx context.Context, image string, policy corev1.PullPolicy) (pod.ImageResult, error) {
	return act(ctx, s.f, Call{Op: OpEnsureImage, Object: image}, func(k *call) (pod.ImageResult, error) {
		return s.ensure(k, image, policy)
	})
}

func (s *ImageStore) ensure(k *call, image string, policy corev1.PullPolicy) (pod.ImageResult, error) {
	have, present := s.present[image]
	switch {
	case k.lies():
		return pod.ImageResult{ID: "sha256:lie"}, nil
	case present && policy != corev1.PullAlways:
		return pod.ImageResult{ID: have.ID}, nil
	case policy == corev1.PullNever:
		return pod.ImageResult{}, refuse(pod.NotFound, k.Op, image, "it is not present and must not be pulled")
	}
	r := s.registry[image]
	if k.round == 0 && r.Takes > 0 {
		k.sleep = r.Takes
		return pod.ImageResult{}, nil
	}
	switch r.Answer {
	case RegistryHas:
		s.pulls++
		id := have.ID
		if !present {
			id = s.add(image)
		}
		return pod.ImageResult{ID: id, Pulled: true, PullTime: r.Takes}, nil
	case RegistryHasNot:
		return pod.ImageResult{}, refuse(pod.Invalid, k.Op, image, "manifest unknown")
	case RegistryDenies:
		return pod.ImageResult{}, refuse(pod.Invalid, k.Op, image, "access denied")
	}
	if present {
		return pod.ImageResult{ID: have.ID, Warning: "the registry can't be reached; the present image is used"}, nil
	}
	return pod.ImageResult{}, refuse(pod.Unavailable, k.Op, image, "the registry can't be reached")
}
