package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// allRun is nil when the agent says that of the pod's containers those named run
// and no other, and that the pod is as its latest generation wants it.
func (a *agent) allRun(name string, containers ...string) error {
	p, err := a.pod(name)
	if err != nil {
		return err
	}
	var run []string
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			run = append(run, c.Name)
		}
	}
	slices.Sort(run)
	if p.Status.Phase != corev1.PodRunning || !slices.Equal(run, slices.Sorted(slices.Values(containers))) {
		return fmt.Errorf("pod %s is %s, and %v run", name, p.Status.Phase, run)
	}
	return a.settled(p)
}

// settled is nil when the agent has taken note of the pod's latest generation and
// sees nothing left to do about it.
func (a *agent) settled(p *corev1.Pod) error {
	if p.Status.ObservedGeneration != p.Generation {
		return fmt.Errorf("generation %d is not dealt with", p.Generation)
	}
	rows, err := a.sql("SELECT container, desired, observed, action FROM drift WHERE pod_uid = ?1", string(p.UID))
	if err != nil {
		return err
	}
	return unless(len(rows) == 0, "pod %s drifts: %v", p.Name, rows)
}

// awaitRunning waits until the containers named and no other run, by the agent's
// word and by Podman's, and returns what runs.
func (a *agent) awaitRunning(t *testing.T, name string, containers ...string) map[string]container {
	t.Helper()
	eventually(t, fmt.Sprintf("%v of pod %s run", containers, name), func() error { return a.allRun(name, containers...) })
	alive := a.live(t, name)
	if got, want := names(alive), slices.Sorted(slices.Values(containers)); !slices.Equal(got, want) {
		t.Fatalf("Podman runs %v of pod %s, and the agent says %v", got, name, want)
	}
	return alive
}

// awaitGeneration waits until the agent has taken note of an edit and done what
// it calls for, and returns what runs.
func (a *agent) awaitGeneration(t *testing.T, name string, generation int64) map[string]container {
	t.Helper()
	eventually(t, fmt.Sprintf("pod %s is as generation %d wants it", name, generation), func() error {
		p, err := a.pod(name)
		if err != nil {
			return err
		}
		if p.Generation != generation {
			return fmt.Errorf("it is at generation %d", p.Generation)
		}
		return a.settled(p)
	})
	return a.live(t, name)
}

// awaitGone waits until the agent has forgotten the pod, and fails if Podman has
// anything left of it.
func (a *agent) awaitGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" is gone", func() error {
		p, err := a.pod(name)
		switch {
		case errors.Is(err, errNoPod):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is %s, deleted at %s", p.Status.Phase, p.DeletionTimestamp)
	})
	if left := a.containers(t, name); len(left) > 0 {
		t.Errorf("Podman has %v of pod %s, which is gone", left, name)
	}
	if left := a.podmanPods(t, name); len(left) > 0 {
		t.Errorf("Podman has pods %v of pod %s, which is gone", left, name)
	}
}

// awaitStatus waits until the pod's status passes the check.
func (a *agent) awaitStatus(t *testing.T, name, what string, check func(corev1.PodStatus) bool) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	eventually(t, "pod "+name+" "+what, func() error {
		var err error
		if p, err = a.pod(name); err != nil {
			return err
		}
		return unless(check(p.Status), "its status is %s %v %v", p.Status.Phase, p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	})
	return p
}

// statusOf is the status of one container, the zero value when there is none.
func statusOf(s corev1.PodStatus, name string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return corev1.ContainerStatus{}
}

// waitsFor reports the reason for which a container waits; empty: it does not.
func waitsFor(s corev1.PodStatus, name string) string {
	if w := statusOf(s, name).State.Waiting; w != nil {
		return w.Reason
	}
	return ""
}

// ended is how a container ended; the zero value: it has not.
func ended(s corev1.PodStatus, name string) corev1.ContainerStateTerminated {
	if e := statusOf(s, name).State.Terminated; e != nil {
		return *e
	}
	return corev1.ContainerStateTerminated{}
}

// awaitEvent waits for a Kubernetes event of the pod that says the words.
func (a *agent) awaitEvent(t *testing.T, name, kind, reason, words string) {
	t.Helper()
	eventually(t, fmt.Sprintf("pod %s has the event %s %s", name, kind, reason), func() error {
		rows, err := a.sql("SELECT type, reason, message FROM events WHERE pod = ?1", name)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r["type"] == kind && r["reason"] == reason && strings.Contains(fmt.Sprint(r["message"]), words) {
				return nil
			}
		}
		return fmt.Errorf("its events are %v", rows)
	})
}

// volumesLeft are the pods that have a directory on the node.
func (a *agent) volumesLeft(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(a.root, "pods"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return left
}
