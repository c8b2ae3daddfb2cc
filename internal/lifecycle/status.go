package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/utils/ptr"

	"podstead.io/podstead/internal/pod"
)

// Waiting and terminated reasons, as kubelet and containerd give them.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonCompleted    = "Completed"
	reasonError        = "Error"
	reasonOOMKilled    = "OOMKilled"
	reasonStartError   = "StartError"
	reasonUnknown      = "ContainerStatusUnknown"
	reasonPodCompleted = "PodCompleted"

	// ReasonUnreadable is the pod's own when its manifest can't be read.
	ReasonUnreadable = "ManifestUnreadable"
)

// Status describes the pod as kubelet would
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/). It equals
// the stored status, times of conditions included, when nothing has changed.
// hostIPs are the node's addresses, primary first.
func Status(s pod.Snapshot, hostIPs []string, now time.Time) corev1.PodStatus {
	p := newPlanner(s, now)
	old := s.Desired.Status
	st := corev1.PodStatus{
		ObservedGeneration: s.Desired.Generation,
		Phase:              phase(s.Desired),
		QOSClass:           qos.ComputePodQOS(s.Desired.Pod),
		StartTime:          old.StartTime,
	}
	if st.StartTime == nil {
		st.StartTime = ptr.To(stamp(now))
	}
	switch {
	case s.Desired.Unreadable != "":
		st.Reason, st.Message = ReasonUnreadable, UnreadableRemedy(s.Desired)
	case s.Desired.State == pod.StateEvicted:
		st.Reason = "Evicted"
	}
	p.addresses(&st, hostIPs)
	initDone := p.initDone()
	for _, dc := range s.Desired.Containers {
		cs := p.containerStatus(dc, initDone)
		if dc.Kind == pod.KindInit {
			st.InitContainerStatuses = append(st.InitContainerStatuses, cs)
		} else {
			st.ContainerStatuses = append(st.ContainerStatuses, cs)
		}
	}
	st.Conditions = p.conditions(st, initDone)
	if apiequality.Semantic.DeepEqual(old, st) {
		return old
	}
	return st
}

// UnreadableRemedy says what is wrong with a pod that this binary can't read, and
// what to do about it.
func UnreadableRemedy(d pod.Desired) string {
	return fmt.Sprintf("this podsteadd can't read the manifest that an earlier one took: %s; what runs is left as it is: mend the manifest at its source, delete the pod, or run the earlier podsteadd", d.Unreadable)
}

// stamp drops what the JSON of a status can't carry, so that a stored status
// equals the one it was stored from.
func stamp(t time.Time) metav1.Time { return metav1.Time{Time: t.Truncate(time.Second)} }

func phase(d pod.Desired) corev1.PodPhase {
	switch d.State {
	case pod.StateRunning:
		return corev1.PodRunning
	case pod.StateSucceeded:
		return corev1.PodSucceeded
	case pod.StateFailed, pod.StateEvicted:
		return corev1.PodFailed
	case pod.StateTerminating:
		return cmp.Or(d.Status.Phase, corev1.PodPending)
	default:
		return corev1.PodPending
	}
}

func (p *planner) addresses(st *corev1.PodStatus, hostIPs []string) {
	for i, ip := range hostIPs {
		if i == 0 {
			st.HostIP = ip
		}
		st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: ip})
	}
	if p.sandbox == nil || !p.sandbox.State.Live() {
		return
	}
	ips := p.sandbox.IPs
	if p.want.Pod.Spec.HostNetwork {
		ips = hostIPs
	}
	for i, ip := range ips {
		if i == 0 {
			st.PodIP = ip
		}
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
	}
}

// initDone reports whether every init container has completed.
func (p *planner) initDone() bool {
	if p.initPassed() {
		return true
	}
	for _, dc := range p.want.Containers {
		if dc.Kind != pod.KindInit {
			continue
		}
		c := p.latest(dc.Name)
		if c == nil || c.Revision != dc.Revision || c.State.Live() || c.State == pod.RunCreated || exitCode(*c) != 0 {
			return false
		}
	}
	return true
}

func (p *planner) containerStatus(dc pod.DesiredContainer, initDone bool) corev1.ContainerStatus {
	cs := corev1.ContainerStatus{Name: dc.Name, Image: dc.Image, Started: ptr.To(false)}
	list := p.attempts[dc.Name]
	if len(list) == 0 {
		cs.State.Waiting = p.waiting(dc, initDone)
		cs.LastTerminationState.Terminated = p.remembered(dc.Name, "")
		return cs
	}
	c := list[0]
	cs.RestartCount = int32(c.Attempt)
	cs.Image = cmp.Or(c.Image, dc.Image)
	cs.ImageID = c.ImageID
	cs.ContainerID = "podman://" + c.ID
	switch {
	case c.State.Live():
		cs.State.Running = &corev1.ContainerStateRunning{StartedAt: stamp(c.StartedAt)}
		cs.Started = ptr.To(true)
		cs.Ready = dc.Kind != pod.KindInit && p.want.Deletion == nil
	case c.State == pod.RunCreated:
		cs.State.Waiting = p.waiting(dc, initDone)
	default:
		ended := terminated(c)
		cs.Ready = dc.Kind == pod.KindInit && exitCode(c) == 0
		if w := p.waiting(dc, initDone); w.Reason != reasonCreating && w.Reason != reasonInitializing && p.want.Deletion == nil && dc.Attempt > c.Attempt {
			cs.State.Waiting = w
			cs.LastTerminationState.Terminated = ended
			return cs
		}
		cs.State.Terminated = ended
	}
	if len(list) > 1 && !list[1].State.Live() && list[1].State != pod.RunCreated {
		cs.LastTerminationState.Terminated = terminated(list[1])
	} else {
		cs.LastTerminationState.Terminated = p.remembered(dc.Name, cs.ContainerID)
	}
	return cs
}

// remembered is how an attempt before the one with the ID ended, by the stored
// status: of one that was removed nothing else is left.
func (p *planner) remembered(name, id string) *corev1.ContainerStateTerminated {
	old := p.want.Status
	for _, cs := range slices.Concat(old.InitContainerStatuses, old.ContainerStatuses) {
		if cs.Name != name {
			continue
		}
		for _, ended := range []*corev1.ContainerStateTerminated{cs.State.Terminated, cs.LastTerminationState.Terminated} {
			if ended != nil && ended.ContainerID != id {
				return ended
			}
		}
	}
	return nil
}

// waiting says what a container without a process waits for.
func (p *planner) waiting(dc pod.DesiredContainer, initDone bool) *corev1.ContainerStateWaiting {
	for _, kind := range []pod.BackoffKind{pod.BackoffImage, pod.BackoffCreate} {
		if b := FindBackoff(p.want.Backoffs, dc.Name, kind); b.Failures > 0 {
			return &corev1.ContainerStateWaiting{Reason: b.Reason, Message: b.Message}
		}
	}
	if b := FindBackoff(p.want.Backoffs, dc.Name, pod.BackoffCrash); Left(b, p.now) > 0 {
		return &corev1.ContainerStateWaiting{
			Reason:  reasonCrashLoop,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", BackoffDelay(pod.BackoffCrash, b.Failures), dc.Name, p.want.Name, p.want.Namespace, p.want.UID),
		}
	}
	if dc.Kind == pod.KindContainer && !initDone {
		return &corev1.ContainerStateWaiting{Reason: reasonInitializing}
	}
	for _, kind := range []pod.BackoffKind{pod.BackoffSandbox, pod.BackoffVolume} {
		if b := FindBackoff(p.want.Backoffs, "", kind); b.Failures > 0 {
			return &corev1.ContainerStateWaiting{Reason: reasonCreating, Message: b.Message}
		}
	}
	return &corev1.ContainerStateWaiting{Reason: reasonCreating}
}

func terminated(c pod.Container) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode:    int32(exitCode(c)),
		StartedAt:   stamp(c.StartedAt),
		FinishedAt:  stamp(c.FinishedAt),
		ContainerID: "podman://" + c.ID,
		Message:     c.Error,
	}
	switch {
	case c.State == pod.RunGone && c.FinishedAt.IsZero():
		t.Reason = reasonUnknown
		t.Message = "the container was removed before its end was seen"
	case c.Error != "":
		t.Reason = reasonStartError
	case c.OOMKilled:
		t.Reason = reasonOOMKilled
	case t.ExitCode == 0:
		t.Reason = reasonCompleted
	default:
		t.Reason = reasonError
	}
	return t
}

func (p *planner) conditions(st corev1.PodStatus, initDone bool) []corev1.PodCondition {
	var unready, pending []string
	for _, c := range st.ContainerStatuses {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	for _, c := range st.InitContainerStatuses {
		if !c.Ready {
			pending = append(pending, c.Name)
		}
	}
	initialized, initReason := initDone, "ContainersNotInitialized"
	initText := fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(pending, " "))
	ready, reason := len(unready) == 0, "ContainersNotReady"
	text := fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	switch st.Phase {
	case corev1.PodSucceeded:
		initialized, initReason, initText = true, reasonPodCompleted, ""
		ready, reason, text = false, reasonPodCompleted, ""
	case corev1.PodFailed:
		ready, reason, text = false, "PodFailed", ""
	}
	sandboxText := "pod sandbox is not ready"
	if len(p.seen.Sandboxes) == 0 {
		sandboxText = "no pod sandbox exists"
	}
	return []corev1.PodCondition{
		p.condition(corev1.PodReadyToStartContainers, p.sandbox != nil && p.sandbox.State.Live(), "PodSandboxNotReady", sandboxText),
		p.condition(corev1.PodInitialized, initialized, initReason, initText),
		p.condition(corev1.PodReady, ready, reason, text),
		p.condition(corev1.ContainersReady, ready, reason, text),
		p.condition(corev1.PodScheduled, true, "", ""),
	}
}

// condition keeps the time of the stored condition while its status is the
// same. Reason and message explain a false one; PodCompleted also a true one.
func (p *planner) condition(t corev1.PodConditionType, ok bool, reason, message string) corev1.PodCondition {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, ObservedGeneration: p.want.Generation, LastTransitionTime: stamp(p.now)}
	if !ok {
		c.Status = corev1.ConditionFalse
	}
	if !ok || reason == reasonPodCompleted {
		c.Reason, c.Message = reason, message
	}
	for _, old := range p.want.Status.Conditions {
		if old.Type == t && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return c
}
