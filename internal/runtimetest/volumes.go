package runtimetest

import (
	"context"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// VolumeStore implements reconcile.Volumes in memory.
type VolumeStore struct {
	f    *Fake
	made map[string]string // pods' UIDs to their names
}

// Volumes are those of the pods of this runtime.
func (f *Fake) Volumes() *VolumeStore { return f.volumes }

// Left lists the UIDs of pods that have volumes.
func (v *VolumeStore) Left() []string {
	v.f.mu.Lock()
	defer v.f.mu.Unlock()
	return slices.Sorted(maps.Keys(v.made))
}

// Ensure implements reconcile.Volumes.
func (v *VolumeStore) Ensure(ctx context.Context, p *corev1.Pod) (map[string]string, error) {
	about := Call{Op: OpEnsureVolumes, Pod: p.Name, Object: string(p.UID)}
	return act(ctx, v.f, about, func(k *call) (map[string]string, error) {
		paths := map[string]string{}
		for _, volume := range p.Spec.Volumes {
			paths[volume.Name] = path.Join("/volumes", string(p.UID), volume.Name)
		}
		if len(paths) > 0 && !k.lies() {
			v.made[string(p.UID)] = p.Name
		}
		return paths, nil
	})
}

// Remove implements reconcile.Volumes.
func (v *VolumeStore) Remove(ctx context.Context, uid types.UID) error {
	v.f.mu.Lock()
	about := Call{Op: OpRemoveVolumes, Pod: v.made[string(uid)], Object: string(uid)}
	v.f.mu.Unlock()
	_, err := act(ctx, v.f, about, func(k *call) (pod.Class, error) {
		if !k.lies() {
			delete(v.made, string(uid))
		}
		return "", nil
	})
	return err
}
