package pod_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"podstead.io/podstead/internal/pod"
)

func twoContainers() *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			InitContainers:                []corev1.Container{{Name: "init", Image: "busybox"}, {Name: "init2", Image: "busybox"}},
			Containers: []corev1.Container{
				{
					Name: "nginx", Image: "nginx", ImagePullPolicy: corev1.PullAlways,
					Ports:        []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}, {ContainerPort: 443, HostPort: 8443, Protocol: corev1.ProtocolTCP}},
					VolumeMounts: []corev1.VolumeMount{{Name: "logs", MountPath: "/logs"}, {Name: "cache", MountPath: "/cache"}},
					Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
				},
				{Name: "sidekick", Image: "busybox", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}},
			},
			Volumes: []corev1.Volume{
				{Name: "logs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}

func TestDiff(t *testing.T) {
	changed := func(name string) map[string]pod.Change { return map[string]pod.Change{name: pod.ContainerChanged} }
	tests := []struct {
		name       string
		edit       func(*corev1.Pod)
		podWide    bool
		containers map[string]pod.Change
	}{
		{name: "nothing", edit: func(*corev1.Pod) {}},
		{name: "labels", edit: func(p *corev1.Pod) { p.Labels["app"] = "other" }},
		{name: "annotations", edit: func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }},
		{name: "restart policy", edit: func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }},
		{name: "grace period", edit: func(p *corev1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 1 }},
		{name: "pull policy", edit: func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever }},
		{name: "pull policy of an init container", edit: func(p *corev1.Pod) { p.Spec.InitContainers[0].ImagePullPolicy = corev1.PullNever }},
		{name: "container order", edit: func(p *corev1.Pod) {
			c := p.Spec.Containers
			c[0], c[1] = c[1], c[0]
		}},
		{name: "volume order", edit: func(p *corev1.Pod) {
			v := p.Spec.Volumes
			v[0], v[1] = v[1], v[0]
		}},
		{name: "mount order", edit: func(p *corev1.Pod) {
			m := p.Spec.Containers[0].VolumeMounts
			m[0], m[1] = m[1], m[0]
		}},
		{name: "a port that is not published", edit: func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 81 }},
		{name: "the same quantity written otherwise", edit: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("0.5")
		}},
		{name: "an empty list for none", edit: func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{} }},

		{name: "image", edit: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:1" }, containers: changed("nginx")},
		{name: "environment", edit: func(p *corev1.Pod) { p.Spec.Containers[1].Env[0].Value = "2" }, containers: changed("sidekick")},
		{name: "command", edit: func(p *corev1.Pod) { p.Spec.Containers[1].Command = []string{"true"} }, containers: changed("sidekick")},
		{name: "limit", edit: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1")
		}, containers: changed("nginx")},
		{name: "mount read-only", edit: func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[1].ReadOnly = true }, containers: changed("nginx")},
		{name: "container removed", edit: func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
			containers: map[string]pod.Change{"sidekick": pod.ContainerRemoved}},
		{name: "container added", edit: func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "third", Image: "busybox"})
		}, containers: map[string]pod.Change{"third": pod.ContainerAdded}},
		{name: "container renamed", edit: func(p *corev1.Pod) { p.Spec.Containers[1].Name = "new" },
			containers: map[string]pod.Change{"sidekick": pod.ContainerRemoved, "new": pod.ContainerAdded}},

		{name: "published port", edit: func(p *corev1.Pod) { p.Spec.Containers[0].Ports[1].HostPort = 9443 }, podWide: true},
		{name: "a published port moves to another container", edit: func(p *corev1.Pod) {
			c := p.Spec.Containers
			c[1].Ports, c[0].Ports = c[0].Ports[1:], c[0].Ports[:1]
		}},
		{name: "volume", edit: func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory }, podWide: true},
		{name: "volume added", edit: func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "new"}) }, podWide: true},
		{name: "host network", edit: func(p *corev1.Pod) { p.Spec.HostNetwork = true }, podWide: true},
		{name: "host PID", edit: func(p *corev1.Pod) { p.Spec.HostPID = true }, podWide: true},
		{name: "host IPC", edit: func(p *corev1.Pod) { p.Spec.HostIPC = true }, podWide: true},
		{name: "host name", edit: func(p *corev1.Pod) { p.Spec.Hostname = "www" }, podWide: true},
		{name: "init container", edit: func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "busybox:1" }, podWide: true},
		{name: "init container order", edit: func(p *corev1.Pod) {
			c := p.Spec.InitContainers
			c[0], c[1] = c[1], c[0]
		}, podWide: true},
		{name: "init container removed", edit: func(p *corev1.Pod) { p.Spec.InitContainers = nil }, podWide: true},
		{name: "a field nobody has decided on", edit: func(p *corev1.Pod) { p.Spec.Subdomain = "x" }, podWide: true},
		{name: "both", edit: func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Image = "nginx:1"
		}, podWide: true, containers: changed("nginx")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, updated := twoContainers(), twoContainers()
			tt.edit(updated)
			kept := updated.DeepCopy()
			podWide, containers := pod.Diff(old, updated)
			if podWide != tt.podWide || !maps.Equal(containers, tt.containers) {
				t.Errorf("Diff = %v, %v; want %v, %v", podWide, containers, tt.podWide, tt.containers)
			}
			if again, c := pod.Diff(kept, updated); again || len(c) != 0 {
				t.Errorf("Diff changed its argument: %v, %v", again, c)
			}
		})
	}
}

// drawPod draws pods from so few values that two draws often share parts.
func drawPod(t *rapid.T, label string) *corev1.Pod {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	container := rapid.Custom(func(t *rapid.T) corev1.Container {
		return corev1.Container{
			Name:            name.Draw(t, "name"),
			Image:           rapid.SampledFrom([]string{"x", "y"}).Draw(t, "image"),
			ImagePullPolicy: rapid.SampledFrom([]corev1.PullPolicy{corev1.PullAlways, corev1.PullNever}).Draw(t, "pull"),
			Ports: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.ContainerPort {
				return corev1.ContainerPort{ContainerPort: rapid.Int32Range(1, 2).Draw(t, "port"), HostPort: rapid.Int32Range(0, 1).Draw(t, "host port")}
			}), 0, 2).Draw(t, "ports"),
		}
	})
	byName := func(c corev1.Container) string { return c.Name }
	volume := rapid.Custom(func(t *rapid.T) corev1.Volume { return corev1.Volume{Name: name.Draw(t, "volume")} })
	return &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     rapid.SliceOfNDistinct(container, 0, 3, byName).Draw(t, label+" containers"),
		InitContainers: rapid.SliceOfNDistinct(container, 0, 2, byName).Draw(t, label+" init containers"),
		Volumes:        rapid.SliceOfNDistinct(volume, 0, 2, func(v corev1.Volume) string { return v.Name }).Draw(t, label+" volumes"),
		HostNetwork:    rapid.Bool().Draw(t, label+" host network"),
	}}
}

func TestDiffProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPod(t, "old"), drawPod(t, "new")
		if wide, c := pod.Diff(a, a.DeepCopy()); wide || len(c) != 0 {
			t.Fatalf("Diff(x, x) = %v, %v", wide, c)
		}
		forward, there := pod.Diff(a, b)
		backward, back := pod.Diff(b, a)
		opposite := map[pod.Change]pod.Change{
			pod.ContainerAdded: pod.ContainerRemoved, pod.ContainerRemoved: pod.ContainerAdded, pod.ContainerChanged: pod.ContainerChanged,
		}
		for name, change := range there {
			there[name] = opposite[change]
		}
		if forward != backward || !maps.Equal(there, back) {
			t.Fatalf("not symmetric: %v %v against %v %v", forward, there, backward, back)
		}
		shuffled := b.DeepCopy()
		shuffled.Spec.Containers = rapid.Permutation(shuffled.Spec.Containers).Draw(t, "order")
		if wide, c := pod.Diff(b, shuffled); wide || len(c) != 0 {
			t.Fatalf("container order matters: %v, %v", wide, c)
		}
	})
}
