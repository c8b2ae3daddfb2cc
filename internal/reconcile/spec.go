package reconcile

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"podstead.io/podstead/internal/pod"
)

// The kernel's figures for CPU, as kubelet uses them
// (k8s.io/kubernetes/pkg/kubelet/cm: MilliCPUToShares, MilliCPUToQuota).
const (
	cpuPeriod    = 100_000 // microseconds
	minCPUShares = 2
	maxCPUShares = 262_144
	minCPUQuota  = 1_000 // microseconds
)

// maxHostname is what the kernel takes.
const maxHostname = 63

// sandboxSpec is what the runtime needs to make the pod's sandbox.
func sandboxSpec(node string, d pod.Desired, attempt int) pod.SandboxSpec {
	spec := &d.Pod.Spec
	s := pod.SandboxSpec{
		Identity:    identity(node, d, pod.SandboxContainerName, pod.KindSandbox, attempt, d.Revision),
		HostNetwork: spec.HostNetwork,
		HostPID:     spec.HostPID,
		HostIPC:     spec.HostIPC,
		Labels:      d.Pod.Labels,
	}
	if spec.HostNetwork {
		return s // the node's own name and ports
	}
	s.Hostname = hostname(d.Pod)
	for _, c := range spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				s.Ports = append(s.Ports, pod.PortMapping{HostIP: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
			}
		}
	}
	return s
}

func identity(node string, d pod.Desired, container string, kind pod.ContainerKind, attempt int, revision int64) pod.Identity {
	return pod.Identity{Key: d.Key, UID: d.UID, Node: node, Kind: kind, Container: container, Attempt: attempt, Revision: revision, Hash: d.Hash}
}

// hostname is the pod's name unless it asks for another, cut to what the kernel
// takes as kubelet cuts it: no dash or dot at the end.
func hostname(p *corev1.Pod) string {
	h := p.Spec.Hostname
	if h == "" {
		h = p.Name
	}
	if len(h) > maxHostname {
		h = strings.TrimRight(h[:maxHostname], "-.")
	}
	return h
}

// containerSpec is what the runtime needs to make one attempt at a container.
func containerSpec(node string, d pod.Desired, dc pod.DesiredContainer, c *corev1.Container, made made) (pod.ContainerSpec, error) {
	image, err := pod.NormalizeImage(c.Image)
	if err != nil {
		return pod.ContainerSpec{}, err
	}
	env, lookup := environment(c)
	s := pod.ContainerSpec{
		Identity:    identity(node, d, dc.Name, dc.Kind, made.attempt, dc.Revision),
		SandboxID:   made.sandboxID,
		Image:       image,
		ImageID:     made.imageID,
		Command:     expand(c.Command, lookup),
		Args:        expand(c.Args, lookup),
		Env:         env,
		HostPID:     d.Pod.Spec.HostPID,
		HostIPC:     d.Pod.Spec.HostIPC,
		Resources:   resources(c),
		StopTimeout: pod.GracePeriod(d.Pod),
		Annotations: d.Pod.Annotations,
	}
	for _, m := range c.VolumeMounts {
		host, ok := made.volumes[m.Name]
		if !ok {
			return pod.ContainerSpec{}, &pod.Error{Class: pod.Internal, Op: "mount volume", Object: m.Name, Err: fmt.Errorf("it was not made ready for container %s", dc.Name)}
		}
		s.Mounts = append(s.Mounts, pod.Mount{HostPath: host, ContainerPath: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return s, nil
}

func findContainer(p *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// environment expands each value with the variables before it, and gives the
// look-up that command and args are expanded with.
func environment(c *corev1.Container) ([]pod.EnvVar, func(string) string) {
	values := map[string]string{}
	lookup := expansion.MappingFuncFor(values)
	var env []pod.EnvVar
	for _, e := range c.Env {
		v := expansion.Expand(e.Value, lookup)
		values[e.Name] = v
		env = append(env, pod.EnvVar{Name: e.Name, Value: v})
	}
	return env, lookup
}

// expand keeps nil apart from empty: only nil leaves the image's own.
func expand(words []string, lookup func(string) string) []string {
	if words == nil {
		return nil
	}
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = expansion.Expand(w, lookup)
	}
	return out
}

func resources(c *corev1.Container) pod.Resources {
	r := pod.Resources{CPUShares: minCPUShares, MemoryLimit: c.Resources.Limits.Memory().Value()}
	request, asked := c.Resources.Requests[corev1.ResourceCPU]
	limit, limited := c.Resources.Limits[corev1.ResourceCPU]
	if !asked && limited {
		request = limit
	}
	if m := request.MilliValue(); m > 0 {
		r.CPUShares = uint64(min(max(m*1024/1000, minCPUShares), maxCPUShares))
	}
	if m := limit.MilliValue(); m > 0 {
		r.CPUPeriod = cpuPeriod
		r.CPUQuota = max(m*cpuPeriod/1000, minCPUQuota)
	}
	return r
}
