package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/pod"
)

// outcome is the record of a plan that was carried out: back-offs of what
// failed, an end to those of what succeeded, events, and whether the pod is
// gone. nil when there is nothing to write.
func (r *run) outcome(now time.Time) *pod.Record {
	rec := newRecord(r.snap.Desired)
	rec.Events = r.events
	told := map[pod.Backoff]bool{} // one back-off, whatever number of actions it is about
	for _, f := range r.failures {
		kind, container := subject(f.action)
		about := pod.Backoff{Container: container, Kind: kind}
		if !told[about] {
			r.recordFailure(&rec, f, r.allUnavailable(kind, container), now)
		}
		told[about] = true
	}
	for _, a := range r.succeeded {
		for _, b := range r.snap.Desired.Backoffs {
			if settles(a, b) && !r.failedAgain(b) {
				rec.Backoffs = append(rec.Backoffs, pod.Backoff{Container: b.Container, Kind: b.Kind})
			}
		}
	}
	if r.forget {
		rec.Forget = true
		rec.State = pod.StateGone
		t := pod.Transition{
			Machine: pod.MachinePod, From: string(pod.StateTerminating), Event: lifecycle.EventForget, To: string(pod.StateGone),
			Cause: r.snap.Desired.Deletion.Cause, Detail: r.snap.Desired.Deletion.Detail, Generation: r.snap.Desired.Generation,
		}
		stampTransition(&t, r.snap.Desired, now)
		rec.Transitions = append(rec.Transitions, t)
	}
	if !rec.Forget && len(rec.Events)+len(rec.Backoffs)+len(rec.Transitions) == 0 {
		return nil
	}
	return &rec
}

// allUnavailable reports whether every failure of a kind is that the runtime gave
// no answer, so that they are tried again as soon as it does.
func (r *run) allUnavailable(kind pod.BackoffKind, container string) bool {
	return !slices.ContainsFunc(r.failures, func(f failure) bool {
		k, c := subject(f.action)
		return k == kind && c == container && !errors.Is(f.err, pod.Unavailable)
	})
}

func (r *run) failedAgain(b pod.Backoff) bool {
	return slices.ContainsFunc(r.failures, func(f failure) bool {
		kind, container := subject(f.action)
		return kind == b.Kind && container == b.Container
	})
}

// settles reports whether the success of an action ends a back-off. What could
// not be made in one sandbox may be tried in the next.
func settles(a lifecycle.Action, b pod.Backoff) bool {
	if a.Op == lifecycle.OpCreateSandbox {
		return b.Kind == pod.BackoffCreate
	}
	if a.Op == lifecycle.OpCreateContainer {
		return false // the start is what shows that it works
	}
	kind, container := subject(a)
	return kind == b.Kind && container == b.Container
}

// subject is what an action's back-off is about; no container: the pod.
func subject(a lifecycle.Action) (pod.BackoffKind, string) {
	kind := backoffOf(a.Op)
	if kind != pod.BackoffImage && kind != pod.BackoffCreate {
		return kind, ""
	}
	return kind, a.Container
}

func backoffOf(op lifecycle.Op) pod.BackoffKind {
	switch op {
	case lifecycle.OpEnsureImage:
		return pod.BackoffImage
	case lifecycle.OpCreateContainer, lifecycle.OpStartContainer:
		return pod.BackoffCreate
	case lifecycle.OpCreateSandbox, lifecycle.OpStartSandbox:
		return pod.BackoffSandbox
	case lifecycle.OpPrepareVolumes:
		return pod.BackoffVolume
	default:
		return pod.BackoffRemove
	}
}

// recordFailure backs the operation off and says so: an event, and a transition
// of what is held up by it.
func (r *run) recordFailure(rec *pod.Record, f failure, unavailable bool, now time.Time) {
	a := f.action
	kind, container := subject(a)
	b := lifecycle.Failed(lifecycle.FindBackoff(r.snap.Desired.Backoffs, container, kind), now)
	b.Message = f.err.Error()
	b.Unavailable = unavailable
	cause := pod.CauseRuntime
	switch kind {
	case pod.BackoffImage:
		cause = pod.CauseImage
		b.Reason = imageReason(f.err, b.Failures)
		rec.Events = append(rec.Events, warning(container, "Failed", "Failed to pull image: "+b.Message), warning(container, "Failed", "Error: "+b.Reason))
	case pod.BackoffCreate:
		b.Reason = "CreateContainerError"
		if a.Op == lifecycle.OpStartContainer {
			b.Reason = "RunContainerError"
		}
		rec.Events = append(rec.Events, warning(container, "Failed", "Error: "+b.Message))
	case pod.BackoffSandbox:
		b.Reason = "FailedCreatePodSandBox"
		if a.Op == lifecycle.OpStartSandbox && a.ID != "" && b.Failures == 1 {
			b.Until = now // an old one failed; that says nothing of the new one that comes next
		}
		rec.Events = append(rec.Events, warning("", b.Reason, "Failed to create pod sandbox: "+b.Message))
	case pod.BackoffVolume:
		b.Reason = "FailedMount"
		rec.Events = append(rec.Events, warning("", b.Reason, b.Message))
	default:
		b.Reason = "FailedKillPod"
		rec.Events = append(rec.Events, warning("", b.Reason, fmt.Sprintf("error killing pod: %s", b.Message)))
	}
	rec.Backoffs = append(rec.Backoffs, b)
	t := pod.Transition{
		Machine: pod.MachinePod, From: string(r.snap.Desired.State), Event: lifecycle.EventHold, To: string(r.snap.Desired.State),
		Cause: cause, Detail: b.Reason + ": " + b.Message, Generation: r.snap.Desired.Generation,
	}
	if container != "" {
		t.Container, t.Machine, t.Attempt = container, pod.MachineContainer, a.Attempt
		t.From, t.To = lifecycle.ContainerWaiting, lifecycle.ContainerWaiting
	}
	stampTransition(&t, r.snap.Desired, now)
	rec.Transitions = append(rec.Transitions, t)
}

// imageReason is kubelet's waiting reason: the error itself the first time, the
// back-off from then on.
func imageReason(err error, failures int) string {
	switch {
	case errors.Is(err, pod.NotFound):
		return "ErrImageNeverPull"
	case failures > 1:
		return "ImagePullBackOff"
	default:
		return "ErrImagePull"
	}
}
