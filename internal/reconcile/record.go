package reconcile

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/pod"
)

// decided is the record of a decision, with the status that follows from it;
// nil when there is nothing to write. Illegal transitions are errors.
func (l *Loop) decided(snap pod.Snapshot, d lifecycle.Decision, now time.Time) (*pod.Record, error) {
	rec := newRecord(snap.Desired)
	rec.Intents = d.Intents
	rec.Attempts = d.Attempts
	rec.Backoffs = d.Backoffs
	if d.Event != "" {
		to, err := lifecycle.FirePod(snap.Desired.State, d.Event)
		if err != nil {
			return nil, err
		}
		rec.State = to
		rec.Transitions = append(rec.Transitions, pod.Transition{
			Machine: pod.MachinePod, From: string(snap.Desired.State), Event: d.Event, To: string(to),
			Cause: d.Cause, Detail: d.Detail, Generation: snap.Desired.Generation,
		})
		snap.Desired.State = to
	}
	for _, t := range d.Transitions {
		if _, err := lifecycle.Fire(pod.MachineContainer, t.From, t.Event); err != nil {
			return nil, err
		}
		rec.Transitions = append(rec.Transitions, t)
	}
	for i := range rec.Transitions {
		stampTransition(&rec.Transitions[i], snap.Desired, now)
	}
	rec.Events = decisionEvents(snap.Desired, d)
	if snap.Desired.Unreadable != "" && snap.Desired.Status.Reason != lifecycle.ReasonUnreadable {
		rec.Events = append(rec.Events, warning("", lifecycle.ReasonUnreadable, lifecycle.UnreadableRemedy(snap.Desired)))
	}
	withDecision(&snap.Desired, d)
	if st := lifecycle.Status(snap, l.o.HostIPs(), now); !apiequality.Semantic.DeepEqual(st, snap.Desired.Status) {
		rec.Status = &st
	}
	if rec.State == "" && rec.Status == nil && len(rec.Transitions)+len(rec.Intents)+len(rec.Attempts)+len(rec.Backoffs)+len(rec.Events) == 0 {
		return nil, nil
	}
	return &rec, nil
}

func newRecord(d pod.Desired) pod.Record {
	return pod.Record{Key: d.Key, UID: d.UID, Generation: d.Generation, Deleting: d.Deletion != nil}
}

func stampTransition(t *pod.Transition, d pod.Desired, now time.Time) {
	t.At, t.Key, t.UID = now, d.Key, d.UID
}

// withDecision puts into the snapshot what the record is about to store, so
// that the status describes the pod as it will be.
func withDecision(d *pod.Desired, dec lifecycle.Decision) {
	containers := make([]pod.DesiredContainer, len(d.Containers))
	copy(containers, d.Containers)
	for i := range containers {
		if n, ok := dec.Attempts[containers[i].Name]; ok {
			containers[i].Attempt = n
		}
	}
	d.Containers = containers
	d.Backoffs = mergeBackoffs(d.Backoffs, dec.Backoffs)
}

func mergeBackoffs(old, changed []pod.Backoff) []pod.Backoff {
	var out []pod.Backoff
	for _, b := range old {
		if lifecycle.FindBackoff(changed, b.Container, b.Kind).LastAt.IsZero() {
			out = append(out, b)
		}
	}
	return append(out, changed...)
}

// decisionEvents are the Kubernetes events of a decision, in kubelet's words.
func decisionEvents(d pod.Desired, dec lifecycle.Decision) []pod.Event {
	var out []pod.Event
	for _, a := range dec.Actions {
		switch {
		case a.Op == lifecycle.OpStopContainer && a.Then != nil:
			out = append(out, normal(a.Container, "Killing", fmt.Sprintf("Container %s will be restarted: %s", a.Container, a.Detail)))
		case a.Op == lifecycle.OpStopContainer:
			out = append(out, normal(a.Container, "Killing", "Stopping container "+a.Container))
		}
	}
	if dec.Event == lifecycle.EventRecreate {
		out = append(out, normal("", "SandboxChanged", "Pod sandbox will be started again: "+dec.Detail))
	}
	for _, b := range dec.Backoffs {
		if b.Kind == pod.BackoffCrash && b.Failures > 1 {
			out = append(out, warning(b.Container, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", b.Container, d.Name, d.Namespace, d.UID)))
		}
	}
	return out
}

func normal(container, reason, message string) pod.Event {
	return pod.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message, Container: container}
}

func warning(container, reason, message string) pod.Event {
	return pod.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message, Container: container}
}
