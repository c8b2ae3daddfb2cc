package reconcile_test

import (
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

func TestEndsFromOutsideAreRepairedAndExplained(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(f *runtimetest.Fake, id string)
		event  string
		cause  pod.Cause
		reason string // of the last termination
	}{
		{"killed", (*runtimetest.Fake).KillProcess, "exit", pod.CauseExit, "Error"},
		{"out of memory", (*runtimetest.Fake).OOM, "exit", pod.CauseOOM, "OOMKilled"},
		{"podman kill", (*runtimetest.Fake).KillByHand, "exit", pod.CauseUser, "Error"},
		{"podman rm", (*runtimetest.Fake).RemoveBehind, "vanish", pod.CauseUser, "ContainerStatusUnknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			observed(t, func(r *rig) {
				uid := r.submit(podOf("web", "a", "b"))
				r.pass(2 * time.Second)
				before := r.runs(uid, "a", "b")
				tc.do(r.fake, before["a"].ID)
				r.pass(2 * time.Second)
				after := r.runs(uid, "a", "b")
				if after["b"] != before["b"] || after["a"].Attempt != 1 {
					r.Errorf("live %#v; was %#v", after, before)
				}
				h := r.history(uid, "a")
				if end := h[2]; end.Event != tc.event || end.Cause != tc.cause || end.Detail == "" {
					r.Errorf("ended as %+v; want %s for %s", end, tc.event, tc.cause)
				}
				if restart := h[3]; restart.Event != "restart" || restart.Cause != tc.cause || restart.Attempt != 1 {
					r.Errorf("restarted as %+v", restart)
				}
				if last := r.status(uid, "a").LastTerminationState.Terminated; last == nil || last.Reason != tc.reason {
					r.Errorf("last termination %+v; want %s", last, tc.reason)
				}
			})
		})
	}
}

// Podman says that someone stopped a container only after it died.
func TestStopByHandIsTheUsers(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(2 * time.Second)
		before := r.runs(uid, "a")["a"]
		r.fake.StopByHand(before.ID)
		r.pass(2 * time.Second)
		if c := r.runs(uid, "a")["a"]; c.Attempt != 1 {
			r.Errorf("attempt %d runs", c.Attempt)
		}
		c, err := r.store.Container(r.Context(), before.ID)
		r.must(err)
		if c.EndCause != pod.CauseUser {
			r.Errorf("it ended for %s: %s", c.EndCause, c.EndDetail)
		}
		if h := r.history(uid, "a"); h[2].Cause != pod.CauseUser || h[3].Cause != pod.CauseUser {
			r.Errorf("history %+v", h)
		}
	})
}

func TestPausedContainerIsLeftPaused(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(2 * time.Second)
		c := r.runs(uid, "a")["a"]
		r.fake.Pause(c.ID)
		r.pass(10 * time.Minute)
		r.fake.Unpause(c.ID)
		r.pass(time.Second)
		if now := r.runs(uid, "a")["a"]; now.ID != c.ID {
			r.Errorf("it was replaced by %s", now.Name)
		}
		r.wantHistory(uid, "a", "submit/source", "start/agent", "pause/user", "resume/user")
	})
}

func TestDeathOfTheSandboxStartsThePodAgain(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "init", "a"))
		r.fake.SetScript("init", runtimetest.Script{Lives: time.Second})
		r.pass(4 * time.Second)
		before := r.runs(uid, "a")["a"]
		box := r.fake.Sandboxes()[0]
		r.fake.KillProcess(box.InfraID)
		r.pass(5 * time.Second)
		after := r.runs(uid, "a")["a"]
		if after.Attempt != before.Attempt+1 || after.SandboxID != box.ID {
			r.Errorf("after: %#v", after)
		}
		if n := len(r.fake.Calls(runtimetest.OpCreateContainer)); n != 4 {
			r.Errorf("%d containers were created; want init and a, twice", n)
		}
		r.wantHistory(uid, "", "submit/source", "run/source", "recreate/exit")
		if b := r.backoff(uid, "a", pod.BackoffCrash); b.Failures > 0 {
			r.Errorf("it counts against the container: %+v", b)
		}
	})
}

func TestSandboxRemovedByHandIsMadeAnew(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(2 * time.Second)
		r.fake.RemoveBehind(r.fake.Sandboxes()[0].ID)
		r.pass(2 * time.Second)
		r.runs(uid, "a")
		r.wantHistory(uid, "", "submit/source", "run/source", "recreate/user")
	})
}

func TestLostEventsAreMadeUpForByAListing(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(2 * time.Second)
		c := r.runs(uid, "a")["a"]
		r.fake.Mute(true)
		r.fake.KillProcess(c.ID)
		r.fake.Mute(false)
		r.pass(30 * time.Second)
		if live := r.fake.Live(uid, ""); len(live) > 0 {
			r.Fatalf("nobody could know, and yet there is %v", live)
		}
		r.pass(time.Minute)
		r.runs(uid, "a")
	})
}

func TestRebootStartsEverythingAgain(t *testing.T) {
	for _, left := range []pod.RunState{pod.RunCreated, pod.RunExited} {
		t.Run("left as "+string(left), func(t *testing.T) {
			observed(t, func(r *rig) {
				uid := r.submit(withVolume(podOf("web", "a", "b")))
				done := podOf("done", "once")
				done.Spec.RestartPolicy = "Never"
				r.fake.SetScript("once", runtimetest.Script{Lives: time.Second})
				ended := r.submit(done)
				r.pass(3 * time.Second)
				r.runs(uid, "a", "b")
				r.wantState(ended, pod.StateSucceeded)
				r.stop()
				r.fake.Reboot(left)
				r.must(r.store.Close())
				r.boot = "boot-2"
				r.openStore()
				r.pass(time.Minute)
				r.start()
				r.pass(2 * time.Second)
				for name, c := range r.runs(uid, "a", "b") {
					if c.Attempt != 1 {
						r.Errorf("attempt %d of %s runs", c.Attempt, name)
					}
					r.wantHistory(uid, name, "submit/source", "start/agent", "exit/reboot", "restart/reboot", "start/agent")
				}
				r.wantHistory(uid, "", "submit/source", "run/source", "recreate/reboot")
				r.wantState(ended, pod.StateSucceeded)
				r.runs(ended)
			})
		})
	}
}

// Podman 4.3 with cgroupfs does not know a pod's cgroup any more after a reboot:
// its sandbox can't be started, nor anything be made in it. Another is made at
// once, since nothing says that it would fail.
func TestSandboxThatDidNotOutliveAReboot(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(3 * time.Second)
		old := r.runs(uid, "a")["a"].SandboxID
		r.stop()
		r.fake.Reboot(pod.RunExited)
		r.must(r.store.Close())
		r.boot = "boot-2"
		r.openStore()
		r.fake.Inject(
			runtimetest.Fault{Op: runtimetest.OpStartSandbox, Times: 1, Class: pod.Internal},
			runtimetest.Fault{Op: runtimetest.OpCreateContainer, Times: 1, Class: pod.Internal},
		)
		r.start()
		r.pass(3 * time.Second)
		c := r.runs(uid, "a")["a"]
		if c.SandboxID == old || c.Attempt != 1 {
			r.Errorf("attempt %d runs in sandbox %s, which was %s", c.Attempt, c.SandboxID, old)
		}
		if len(r.fake.Sandboxes()) != 1 {
			r.Errorf("sandboxes %v", r.fake.Sandboxes())
		}
		for _, kind := range []pod.BackoffKind{pod.BackoffSandbox, pod.BackoffCreate} {
			if b := r.backoff(uid, map[pod.BackoffKind]string{pod.BackoffCreate: "a"}[kind], kind); b.Failures > 0 {
				r.Errorf("it is still held against it: %+v", b)
			}
		}
	})
}
