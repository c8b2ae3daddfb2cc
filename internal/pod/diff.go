package pod

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Change says what became of a container between two generations of its pod.
type Change string

// The changes.
const (
	ContainerAdded   Change = "added"
	ContainerRemoved Change = "removed"
	ContainerChanged Change = "changed"
)

// Diff compares two generations of a pod, both defaulted by the same binary,
// and says what has to be replaced to get from one to the other.
//
// podWide is true when the sandbox has to be: something changed that the pod's
// containers share or that is set up with it (volumes, host settings, host
// name, published ports), or an init container changed. A field of the pod
// that is not known to need no restart counts as pod-wide.
//
// containers has an entry for each container, init containers aside, that was
// added or removed or that would run differently. The order of containers, the
// pull policy, ports that are not published, labels, annotations, restart
// policy and grace period restart nothing.
func Diff(old, updated *corev1.Pod) (podWide bool, containers map[string]Change) {
	podWide = !equality.Semantic.DeepEqual(sharedSpec(old), sharedSpec(updated)) ||
		!slices.Equal(publishedPorts(old), publishedPorts(updated)) ||
		!equality.Semantic.DeepEqual(runSpecs(old.Spec.InitContainers), runSpecs(updated.Spec.InitContainers))
	return podWide, diffContainers(runSpecs(old.Spec.Containers), runSpecs(updated.Spec.Containers))
}

func diffContainers(old, updated []corev1.Container) map[string]Change {
	changes := map[string]Change{}
	before := make(map[string]*corev1.Container, len(old))
	for i := range old {
		before[old[i].Name] = &old[i]
		changes[old[i].Name] = ContainerRemoved
	}
	for i := range updated {
		c := &updated[i]
		switch was, ok := before[c.Name]; {
		case !ok:
			changes[c.Name] = ContainerAdded
		case equality.Semantic.DeepEqual(was, c):
			delete(changes, c.Name)
		default:
			changes[c.Name] = ContainerChanged
		}
	}
	return changes
}

// sharedSpec is the part of the pod's spec whose change replaces the sandbox.
// Fields are taken away rather than picked, so that one which a later version
// supports is pod-wide until someone decides otherwise.
func sharedSpec(p *corev1.Pod) *corev1.PodSpec {
	s := p.Spec.DeepCopy()
	s.Containers, s.InitContainers, s.EphemeralContainers = nil, nil, nil
	s.RestartPolicy = ""
	s.TerminationGracePeriodSeconds = nil
	s.ActiveDeadlineSeconds = nil
	s.NodeName, s.NodeSelector, s.Affinity, s.Tolerations = "", nil, nil, nil
	s.SchedulerName, s.Priority, s.PriorityClassName, s.PreemptionPolicy = "", nil, "", nil
	s.ImagePullSecrets = nil
	slices.SortFunc(s.Volumes, func(a, b corev1.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// publishedPorts lists the ports that the sandbox publishes, in a fixed order.
// Init containers publish none, as in Kubernetes.
func publishedPorts(p *corev1.Pod) []PortMapping {
	var ports []PortMapping
	for _, c := range p.Spec.Containers {
		for _, cp := range c.Ports {
			if cp.HostPort != 0 {
				ports = append(ports, PortMapping{HostIP: cp.HostIP, HostPort: cp.HostPort, ContainerPort: cp.ContainerPort, Protocol: cp.Protocol})
			}
		}
	}
	slices.SortFunc(ports, func(a, b PortMapping) int {
		return cmp.Or(cmp.Compare(a.HostPort, b.HostPort), cmp.Compare(a.HostIP, b.HostIP),
			cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.ContainerPort, b.ContainerPort))
	})
	return ports
}

// runSpecs are copies of the containers without what has no effect on a
// container that runs.
func runSpecs(containers []corev1.Container) []corev1.Container {
	specs := make([]corev1.Container, len(containers))
	for i := range containers {
		c := containers[i].DeepCopy()
		c.ImagePullPolicy = ""
		c.Ports = nil
		slices.SortFunc(c.VolumeMounts, func(a, b corev1.VolumeMount) int { return cmp.Compare(a.MountPath, b.MountPath) })
		specs[i] = *c
	}
	return specs
}
