package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

const (
	nodeID   = "node-1"
	nodeName = "node-1"
	busybox  = "docker.io/library/busybox:latest"
	nginx    = "docker.io/library/nginx:latest"
)

func bootID(n int) string { return fmt.Sprintf("boot-%d", n) }

var (
	overHTTP = pod.Source{ID: "http", Kind: pod.SourceHTTP}
	inFiles  = pod.Source{ID: "directory:/manifests", Kind: pod.SourceDirectory, Location: "/manifests"}
)

// shape is what a manifest says, as far as it matters here.
type shape struct {
	Slot   int
	File   bool // it is in the directory, else it is submitted over HTTP
	Policy corev1.RestartPolicy
	Grace  int64 // seconds
	Volume bool
	// Host counts changes to the whole pod.
	Host       int
	Init       []container
	Containers []container
}

// container is one container of a shape. Version counts changes to it.
type container struct {
	Name    string
	Version int
	Image   string
	Pull    corev1.PullPolicy
}

func (s shape) clone() shape {
	s.Init, s.Containers = slices.Clone(s.Init), slices.Clone(s.Containers)
	return s
}

// name is the pod's in the end: that of a static pod has the node's behind it.
func (s shape) name() string { return podName(s.Slot, s.File) }

func podName(slot int, file bool) string {
	if file {
		return fmt.Sprintf("p%d-%s", slot, nodeName)
	}
	return fmt.Sprintf("p%d", slot)
}

func (s shape) hostname() string { return fmt.Sprintf("host-%d", s.Host) }

// whole is what can't be changed without making all of the pod anew.
func (s shape) whole() string { return fmt.Sprint(s.hostname(), s.Init) }

func (c container) args() []string { return []string{fmt.Sprintf("v%d", c.Version)} }

func (s shape) find(name string) (c container, init, found bool) {
	for _, c := range s.Init {
		if c.Name == name {
			return c, true, true
		}
	}
	for _, c := range s.Containers {
		if c.Name == name {
			return c, false, true
		}
	}
	return container{}, false, false
}

func (s shape) manifest() []byte {
	p := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: podName(s.Slot, false), Namespace: "default"},
		Spec: corev1.PodSpec{
			RestartPolicy: s.Policy, Hostname: s.hostname(), TerminationGracePeriodSeconds: ptr.To(s.Grace),
		},
	}
	var mounts []corev1.VolumeMount
	if s.Volume {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		mounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	as := func(list []container) (out []corev1.Container) {
		for _, c := range list {
			out = append(out, corev1.Container{Name: c.Name, Image: c.Image, ImagePullPolicy: c.Pull, Args: c.args(), VolumeMounts: mounts})
		}
		return out
	}
	p.Spec.InitContainers, p.Spec.Containers = as(s.Init), as(s.Containers)
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return data
}

func (s shape) parse() (pod.SourceSet, error) {
	kind, unit := pod.SourceHTTP, "request"
	if s.File {
		kind, unit = pod.SourceDirectory, fmt.Sprintf("p%d.yaml", s.Slot)
	}
	set := manifest.Parser{NodeName: nodeName}.Parse(unit, s.manifest(), kind)
	if len(set.Rejections) > 0 {
		return set, fmt.Errorf("rejected: %+v", set.Rejections)
	}
	return set, nil
}

func (s shape) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s grace %ds host %d", s.name(), s.Policy, s.Grace, s.Host)
	if s.Volume {
		b.WriteString(" volume")
	}
	for _, c := range s.Init {
		fmt.Fprintf(&b, " [%s v%d]", c.Name, c.Version)
	}
	for _, c := range s.Containers {
		fmt.Fprintf(&b, " %s v%d", c.Name, c.Version)
	}
	return b.String()
}
