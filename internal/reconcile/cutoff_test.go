package reconcile_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// TestStartCutOffIsNotTheProcessesFault: a runtime that dies while it starts a
// container refuses to start it ever after. A pod that may not be restarted must
// not fail for that.
func TestStartCutOffIsNotTheProcessesFault(t *testing.T) {
	observed(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpStartContainer, Times: 1, CutOff: true})
		p := podOf("web", "a")
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		uid := r.submit(p)
		r.pass(time.Minute)
		if c := r.runs(uid, "a")["a"]; c.Attempt != 0 {
			r.Errorf("it runs as attempt %d", c.Attempt)
		}
		r.wantState(uid, pod.StateRunning)
		if cs := r.status(uid, "a"); cs.RestartCount != 0 || cs.LastTerminationState.Terminated != nil {
			r.Errorf("reported as %+v", cs)
		}
		if n := len(r.fake.Containers()); n != 1 {
			r.Errorf("%d containers", n)
		}
	})
}

// TestStartInASandboxThatHasEndedIsNotTheProcessesFault: all of a pod may be killed
// at once, and its containers be seen to end first.
func TestStartInASandboxThatHasEndedIsNotTheProcessesFault(t *testing.T) {
	observed(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpStartContainer, After: 1, Times: 1, Deserted: true})
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second)
		r.fake.KillProcess(r.runs(uid, "a")["a"].ID)
		r.pass(5 * time.Second) // less than a back-off
		if c := r.runs(uid, "a")["a"]; c.Attempt != 1 {
			r.Errorf("it runs as attempt %d", c.Attempt)
		}
		if cs := r.status(uid, "a"); cs.RestartCount != 1 || cs.LastTerminationState.Terminated.Reason != "Error" {
			r.Errorf("reported as %+v", cs)
		}
	})
}

// TestProcessThatCannotStartIsStillBlamed: but only once it was made anew.
func TestProcessThatCannotStartIsStillBlamed(t *testing.T) {
	observed(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpStartContainer, Times: 1, Class: pod.Unavailable})
		r.fake.SetScript("a", runtimetest.Script{Broken: "no such command"})
		p := podOf("web", "a")
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		uid := r.submit(p)
		r.pass(time.Minute)
		r.wantState(uid, pod.StateFailed)
		if s := r.status(uid, "a").State.Terminated; s == nil || s.ExitCode != 128 || s.Reason != "StartError" {
			r.Errorf("reported as %+v", r.status(uid, "a").State)
		}
	})
}
