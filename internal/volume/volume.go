// Package volume prepares the node's side of a pod's volumes and takes it away
// again: directories and tmpfs mounts for emptyDir, checks for hostPath.
//
// Directories are laid out as kubelet does it, under
// <root dir>/pods/<uid>/volumes/kubernetes.io~empty-dir/<name>. Nothing is
// remembered: what is there is looked at each time, so that a reboot or a crash
// needs no repair. The package owns no goroutine; calls for different pods may
// run at the same time, calls for one pod may not.
package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// Volumes are the volumes of this node's pods.
type Volumes struct {
	pods string // the directory with one directory for each pod
}

// New makes the volumes below the agent's root directory. It touches nothing.
func New(rootDir string) *Volumes {
	return &Volumes{pods: filepath.Join(rootDir, "pods")}
}

// Ensure makes every volume of the pod ready and returns the host path of each
// by volume name. It is idempotent: volumes that are there keep their content,
// and those that a reboot or someone's hand took away are made anew. A volume
// that the pod no longer has stays until Remove, since a container that is
// going to be replaced may still use it.
//
// Class Invalid: the node does not have what a hostPath asks for, or a tmpfs
// holds more than its new limit. Class Unavailable: the system refused.
func (v *Volumes) Ensure(ctx context.Context, p *corev1.Pod) (map[string]string, error) {
	dir, err := v.podDir(p.UID)
	if err != nil {
		return nil, err
	}
	paths := make(map[string]string, len(p.Spec.Volumes))
	for i := range p.Spec.Volumes {
		vol := &p.Spec.Volumes[i]
		if err := ctx.Err(); err != nil {
			return nil, failure("prepare volume", vol.Name, pod.Unavailable, err)
		}
		var path string
		var err error
		switch {
		case vol.HostPath != nil:
			path, err = vol.HostPath.Path, ensureHostPath(vol.HostPath)
		case vol.EmptyDir != nil:
			path = filepath.Join(dir, "volumes", "kubernetes.io~empty-dir", vol.Name)
			err = ensureEmptyDir(path, vol.EmptyDir, p)
		default:
			err = invalidf("its kind is not supported yet")
		}
		if err != nil {
			return nil, failure("prepare volume", vol.Name, classOf(err), err)
		}
		paths[vol.Name] = path
	}
	return paths, nil
}

// Remove unmounts and deletes everything that Ensure made for the pod; absent is
// fine. It follows no symbolic link and deletes nothing through a mount,
// whatever the pod's containers left in their volumes. It may be repeated, and
// goes on where it was interrupted.
func (v *Volumes) Remove(ctx context.Context, uid types.UID) error {
	dir, err := v.podDir(uid)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unmountBelow(dir); err != nil {
		return failure("unmount volumes of pod", string(uid), pod.Unavailable, err)
	}
	if err := removeTree(ctx, v.pods, string(uid), mountGuard()); err != nil {
		return failure("remove volumes of pod", string(uid), pod.Unavailable, err)
	}
	return nil
}

// List is the pods that have a directory, wanted or not.
func (v *Volumes) List() ([]types.UID, error) {
	entries, err := os.ReadDir(v.pods)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failure("list volumes in", v.pods, pod.Unavailable, err)
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}

// podDir is the pod's directory. A UID that is not one name would lead
// somewhere else.
func (v *Volumes) podDir(uid types.UID) (string, error) {
	if name := string(uid); name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return "", failure("find volumes of pod", name, pod.Internal, errors.New("this is not a UID"))
	}
	return filepath.Join(v.pods, string(uid)), nil
}

func failure(op, object string, class pod.Class, err error) error {
	return &pod.Error{Class: class, Op: op, Object: object, Err: err}
}

// invalidError is about what the node has, not about the system's failing.
type invalidError struct{ text string }

func (e invalidError) Error() string { return e.text }

func invalidf(format string, args ...any) error {
	return invalidError{fmt.Sprintf(format, args...)}
}

func classOf(err error) pod.Class {
	var invalid invalidError
	if errors.As(err, &invalid) {
		return pod.Invalid
	}
	return pod.Unavailable
}
