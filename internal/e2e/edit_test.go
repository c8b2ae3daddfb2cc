package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// edit is a change of a pod and what it may touch.
type edit struct {
	name   string
	change func(*corev1.Pod)
	// replaced and removed list containers; all others stay the processes they
	// are. everything: the whole pod is made anew.
	replaced, removed, added []string
	everything               bool
}

// TestEdits makes one edit after another of one pod. Only what changed is
// replaced: a second apply neither fails with "already exists" nor tears the pod
// down (podman#4478, podman#11481, podman#15054, podman#19711).
func TestEdits(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	p := newPod("web", sleeper("a"), sleeper("b"))
	p.Labels = map[string]string{"app": "web"}
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	a.drop(t, p)
	web := static("web")
	was := a.awaitRunning(t, web, "a", "b")
	uid := a.mustPod(t, web).UID
	a.exec(t, was["a"].ID, "touch", "/data/kept")

	for i, e := range edits {
		t.Run(e.name, func(t *testing.T) {
			e.change(p)
			a.drop(t, p)
			is := a.awaitGeneration(t, web, int64(i+2))
			e.check(t, was, is)
			if got := a.mustPod(t, web).UID; got != uid {
				t.Errorf("an edit changed the UID from %s to %s", uid, got)
			}
			was = is
		})
	}
	if left := a.exec(t, was["a"].ID, "ls", "/data"); left != "kept" {
		t.Errorf("the volume held a file, and now %q", left)
	}
}

var edits = []edit{
	{
		name:     "environment of one container",
		change:   func(p *corev1.Pod) { p.Spec.Containers[1] = with(p.Spec.Containers[1], "N", "1") },
		replaced: []string{"b"},
	},
	{
		name:     "command of the other",
		change:   func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"argument"} },
		replaced: []string{"a"},
	},
	{
		name:     "image",
		change:   func(p *corev1.Pod) { p.Spec.Containers[1].Image = "docker.io/library/nginx:latest" },
		replaced: []string{"b"},
	},
	{
		name:   "container added",
		change: func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, sleeper("c")) },
		added:  []string{"c"},
	},
	{
		name:    "container removed",
		change:  func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:2] },
		removed: []string{"c"},
	},
	{
		name:   "the removed container back",
		change: func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, sleeper("c")) },
		added:  []string{"c"},
	},
	{
		name: "labels and annotations",
		change: func(p *corev1.Pod) {
			p.Labels["app"], p.Annotations = "other", map[string]string{"note": "new"}
		},
	},
	{
		name: "defaults written out",
		change: func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
			p.Spec.SchedulerName = corev1.DefaultSchedulerName
			p.Spec.DNSPolicy = corev1.DNSClusterFirst
			p.Spec.Containers[0].TerminationMessagePath = corev1.TerminationMessagePathDefault
		},
	},
	{
		name: "grace period and pull policy",
		change: func(p *corev1.Pod) {
			seconds := grace + 1
			p.Spec.TerminationGracePeriodSeconds = &seconds
			p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
		},
	},
	{
		name:       "hostname",
		change:     func(p *corev1.Pod) { p.Spec.Hostname = "www" },
		everything: true,
	},
	{
		name: "a volume more",
		change: func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		},
		everything: true,
	},
}

func (e edit) check(t *testing.T, was, is map[string]container) {
	t.Helper()
	if e.everything {
		replaced(t, was, is, append(names(was), "POD")...)
		return
	}
	touched := map[string]bool{}
	for _, name := range e.replaced {
		touched[name] = true
	}
	replaced(t, was, is, e.replaced...)
	for _, name := range e.removed {
		touched[name] = true
		if c, runs := is[name]; runs {
			t.Errorf("%s runs on", c)
		}
	}
	for _, name := range e.added {
		if _, runs := is[name]; !runs {
			t.Errorf("container %s does not run", name)
		}
	}
	for name := range was {
		if !touched[name] {
			same(t, was, is, name)
		}
	}
	if want := len(was) - len(e.removed) + len(e.added); len(is) != want {
		t.Errorf("%d containers run, want %d: %v", len(is), want, is)
	}
}
