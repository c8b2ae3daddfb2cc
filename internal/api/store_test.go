package api_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/store"
)

var directory = pod.Source{ID: "directory:/etc/podstead/manifests", Kind: pod.SourceDirectory, Location: "/etc/podstead/manifests"}

// newStore is a real store that knows a directory beside HTTP.
func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, _, err := store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "podstead.db"), BootID: "b",
		Restore: manifest.Restore, ContainerEdge: lifecycle.ContainerEdge,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Configure(t.Context(), []pod.Source{api.Source, directory}); err != nil {
		t.Fatal(err)
	}
	return s
}

// agentOn is a host over a store.
func agentOn(t *testing.T, s *store.Store) host {
	return newHost(t, func(o *api.Options) {
		o.Parser = manifest.Parser{NodeName: node}
		o.Pods, o.Sink = s, s
	})
}

// drop puts a manifest into the directory.
func drop(t *testing.T, s *store.Store, file, text string) {
	t.Helper()
	set := manifest.Parser{NodeName: node}.Parse(file, []byte(text), pod.SourceDirectory)
	if len(set.Rejections) > 0 {
		t.Fatalf("%+v", set.Rejections)
	}
	if _, err := s.SyncSource(t.Context(), directory, set); err != nil {
		t.Fatal(err)
	}
}

// run makes the pod look as if its container ran.
func run(t *testing.T, s *store.Store, key pod.Key) pod.Desired {
	t.Helper()
	d, err := s.Pod(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(time.Now().Add(-time.Minute))
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.88.0.9", PodIPs: []corev1.PodIP{{IP: "10.88.0.9"}}, StartTime: &at}
	for _, c := range d.Pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		})
	}
	if err := s.Commit(t.Context(), pod.Record{Key: key, UID: d.UID, Generation: d.Generation, State: pod.StateRunning, Status: &status}); err != nil {
		t.Fatal(err)
	}
	return d
}

func manifestOf(name string, more ...string) string {
	text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  containers:\n  - name: c\n    image: busybox\n"
	return text + strings.Join(more, "")
}

func names(list []corev1.Pod) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return slices.Sorted(slices.Values(out))
}

var _ api.Pods = (*store.Store)(nil)
var _ api.Sink = (*store.Store)(nil)
