package lifecycle

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"podstead.io/podstead/internal/pod"
)

// A sandbox that can't be started is removed with the containers that were
// created in it meanwhile. They have not crashed: they never ran.
func TestAttemptThatNeverRanLeavesNoTrace(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	d := Next(m.snap, m.now)
	m.cutShort(d, len(d.Actions)-1) // all but the start of a
	m.removeSandbox(0, pod.CauseRuntime)
	if c := m.snap.Observed.Containers; len(c) != 1 || c[0].State != pod.RunGone || !c[0].StartedAt.IsZero() {
		t.Fatalf("observed %+v", c)
	}
	d = m.step()
	if len(d.Backoffs) > 0 || len(d.Transitions) > 0 {
		t.Errorf("it counts as an end: %+v %+v", d.Backoffs, d.Transitions)
	}
	m.settle()
	if live := m.live("a"); len(live) != 1 || live[0].Attempt != 0 {
		t.Errorf("live %+v; want attempt 0, the first to run", live)
	}
	if st := Status(m.snap, nil, m.now).ContainerStatuses[0]; st.RestartCount != 0 || st.LastTerminationState.Terminated != nil {
		t.Errorf("status %+v", st)
	}
}

// The row of an attempt that was removed goes with the next one. Why it ended
// stays in the status, as kubelet keeps it.
func TestLastTerminationOutlivesItsContainer(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.observe(m.byID(m.live("a")[0].ID), nil)
	m.snap.Desired.Status = Status(m.snap, nil, m.now)
	m.settle()
	m.snap.Observed.Containers = m.live("a")
	for range 2 {
		m.snap.Desired.Status = Status(m.snap, nil, m.now)
		last := m.snap.Desired.Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.Reason != reasonUnknown {
			t.Fatalf("last termination %+v", last)
		}
	}
}

// A container that could not be created in a sandbox that someone was removing
// is not held up in the one that is made instead.
func TestCreateBackoffIsOfTheSandboxThatThereWas(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.removeSandbox(0, pod.CauseUser)
	m.snap.Desired.Backoffs = []pod.Backoff{{Container: "a", Kind: pod.BackoffCreate, Failures: 1, LastAt: m.now, Until: m.now.Add(BackoffBase)}}
	d := m.step()
	if got := ops(d); !slices.Contains(got, "create sandbox") || !slices.Contains(got, "start container a") {
		t.Errorf("actions %v", got)
	}
	if FindBackoff(m.snap.Desired.Backoffs, "a", pod.BackoffCreate).Failures != 1 {
		t.Error("the failure is forgotten before there is a success")
	}
	m = newModel(t, corev1.RestartPolicyAlways, "a")
	m.do(Action{Op: OpCreateSandbox})
	m.do(Action{Op: OpStartSandbox})
	m.snap.Desired.Backoffs = []pod.Backoff{{Container: "a", Kind: pod.BackoffCreate, Failures: 1, LastAt: m.tick(), Until: m.now.Add(BackoffBase)}}
	if d := Next(m.snap, m.now); len(d.Actions) > 0 || !d.Again.Equal(m.snap.Desired.Backoffs[0].Until) {
		t.Errorf("tried again before its time: %v", ops(d))
	}
}

// An attempt that can't be stopped is not tried to be stopped all the time, nor
// is its successor started beside it.
func TestStopThatFailsHoldsUpItsSuccessor(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.snap.Desired.Generation++
	m.snap.Desired.Containers[0].Revision++
	d := Next(m.snap, m.now)
	for _, a := range d.Actions {
		if a.Op == OpCreateContainer {
			m.snap.Desired.Containers[0].Attempt = a.Attempt
			m.do(a)
		}
	}
	m.snap.Desired.Backoffs = []pod.Backoff{{Kind: pod.BackoffRemove, Failures: 1, LastAt: m.now, Until: m.now.Add(BackoffBase)}}
	if d := Next(m.snap, m.now); len(d.Actions) > 0 || !d.Again.Equal(m.snap.Desired.Backoffs[0].Until) {
		t.Errorf("tried again before its time: %v", ops(d))
	}
}

// An ended pod is edited, and the agent dies once the new attempt is made.
func TestPodThatRunsAgainSaysWhyThoughItsAttemptWasMade(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyNever, "a")
	m.exits["a"] = 1
	m.settle()
	if m.snap.Desired.State != pod.StateFailed {
		t.Fatalf("pod is %s", m.snap.Desired.State)
	}
	m.snap.Desired.Generation++
	m.snap.Desired.Containers[0].Revision++
	for _, a := range Next(m.snap, m.now).Actions {
		if a.Op == OpCreateContainer {
			m.snap.Desired.Containers[0].Attempt = a.Attempt
			m.do(a)
		}
	}
	d := Next(m.snap, m.now)
	if d.Event != EventRecreate || d.Cause != pod.CauseSource || d.Detail != "container a: "+specChanged {
		t.Errorf("%s by %q: %q", d.Event, d.Cause, d.Detail)
	}
}

// It takes no grace to be told to stop.
func TestUnstartedAttemptMayRunWhateverTheGrace(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	d := Next(m.snap, m.now)
	m.cutShort(d, len(d.Actions)-1) // all but the start of a
	m.snap.Desired.Pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	m.snap.Desired.Generation++
	m.snap.Desired.Containers[0].Revision++
	for _, a := range Next(m.snap, m.now).Actions {
		if a.Op == OpRemoveContainer {
			if !a.MayRun || a.Grace != 0 {
				t.Errorf("removed with %+v", a)
			}
			return
		}
	}
	t.Error("it is not removed")
}

// After a reboot Podman calls created what ran before. Where that is not on record
// it is an attempt as it is to be started, which an edit may cut short: whatever
// follows waits until it is told to stop.
func TestAttemptThatRanBeforeARebootMayRunAgain(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.snap.Observed.Containers[0].State = pod.RunCreated
	m.snap.Desired.Generation++
	m.snap.Desired.Containers[0].Revision++
	d := Next(m.snap, m.now)
	stop := slices.IndexFunc(d.Actions, func(a Action) bool { return a.Op == OpStopContainer })
	start := slices.IndexFunc(d.Actions, func(a Action) bool { return a.Op == OpStartContainer })
	if stop < 0 || start < 0 || !slices.Contains(d.Actions[start].After, stop) || d.Actions[start].Attempt != 1 {
		t.Fatalf("actions %+v", d.Actions)
	}
	if d.Actions[stop].Then != nil {
		t.Error("it is not known to have run, and yet is to be on record as ended")
	}
	m.settle()
	if live := m.live("a"); len(live) != 1 || live[0].Attempt != 1 {
		t.Errorf("live %+v", live)
	}
}
