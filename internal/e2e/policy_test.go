package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestRestartPolicy drops a pod of every kind of end at once, since what is to be
// seen takes a back-off's ten seconds. The back-off outlives the agent
// (moby#22283).
func TestRestartPolicy(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	pods := []struct {
		name   string
		policy corev1.RestartPolicy
		script string
	}{
		{"always-fails", corev1.RestartPolicyAlways, "echo failing; exit 3"},
		{"always-ends", corev1.RestartPolicyAlways, "exit 0"},
		{"onfailure-fails", corev1.RestartPolicyOnFailure, "exit 1"},
		{"onfailure-ends", corev1.RestartPolicyOnFailure, "exit 0"},
		{"never-fails", corev1.RestartPolicyNever, "exit 7"},
		{"never-ends", corev1.RestartPolicyNever, "exit 0"},
	}
	for _, p := range pods {
		made := newPod(p.name, shell("a", p.script))
		made.Spec.RestartPolicy = p.policy
		a.drop(t, made)
	}
	half := newPod("half", shell("done", "exit 0"), sleeper("on"))
	half.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	a.drop(t, half)
	nothing := newPod("nothing", corev1.Container{Name: "a", Image: "busybox", ImagePullPolicy: corev1.PullNever, Command: []string{"/no/such/program"}})
	a.drop(t, nothing)

	t.Run("the end is final", func(t *testing.T) { a.finalEnds(t) })
	t.Run("one of two ends", func(t *testing.T) {
		s := a.awaitStatus(t, static("half"), "runs with one container completed", func(s corev1.PodStatus) bool {
			return ended(s, "done").Reason == "Completed" && statusOf(s, "on").State.Running != nil
		}).Status
		if s.Phase != corev1.PodRunning || statusOf(s, "done").RestartCount != 0 {
			t.Errorf("the pod's status is %+v", s)
		}
	})
	t.Run("back-off", func(t *testing.T) {
		for _, name := range []string{"always-fails", "always-ends", "onfailure-fails", "nothing"} {
			a.awaitStatus(t, static(name), "is backed off after one restart", func(s corev1.PodStatus) bool {
				return waitsFor(s, "a") == "CrashLoopBackOff" && statusOf(s, "a").RestartCount >= 1
			})
		}
		s := a.mustPod(t, static("always-fails")).Status
		if last := statusOf(s, "a").LastTerminationState.Terminated; s.Phase != corev1.PodRunning || last == nil || last.ExitCode != 3 || last.Reason != "Error" {
			t.Errorf("the status of what crashes is %+v", s)
		}
		s = a.mustPod(t, static("nothing")).Status
		if last := statusOf(s, "a").LastTerminationState.Terminated; last == nil || last.Reason != "StartError" || !strings.Contains(last.Message, "/no/such/program") {
			t.Errorf("the status of what can't be started is %+v", s)
		}
	})
	t.Run("the agent's restart does not end it", func(t *testing.T) {
		before := a.attempts(t, "always-fails")
		a.kill()
		a.start(t)
		a.ready(t)
		a.proveAlive(t)
		a.checkDelays(t, "always-fails")
		if now := a.attempts(t, "always-fails"); now > before+1 {
			t.Errorf("there were %d attempts, and with the agent's restart %d", before, now)
		}
	})
	t.Run("next attempt", func(t *testing.T) {
		eventually(t, "the third attempt is made", func() error {
			n := a.attempts(t, "always-fails")
			return unless(n >= 3, "there were %d", n)
		})
		a.checkDelays(t, "always-fails")
	})
}

// finalEnds are pods that nothing restarts.
func (a *agent) finalEnds(t *testing.T) {
	for name, want := range map[string]struct {
		phase  corev1.PodPhase
		code   int32
		reason string
	}{
		"onfailure-ends": {corev1.PodSucceeded, 0, "Completed"},
		"never-ends":     {corev1.PodSucceeded, 0, "Completed"},
		"never-fails":    {corev1.PodFailed, 7, "Error"},
	} {
		s := a.awaitStatus(t, static(name), "has ended", func(s corev1.PodStatus) bool { return s.Phase == want.phase }).Status
		if e := ended(s, "a"); e.ExitCode != want.code || e.Reason != want.reason || statusOf(s, "a").RestartCount != 0 {
			t.Errorf("%s: its container's status is %+v", name, statusOf(s, "a"))
		}
		eventually(t, name+" gives up its sandbox's processes", func() error {
			alive := a.live(t, static(name))
			return unless(len(alive) == 0, "there is %v", alive)
		})
		if tried := a.attempts(t, name); tried != 1 {
			t.Errorf("%s was tried %d times", name, tried)
		}
	}
}

// started is when each attempt at a static pod's container a began and ended.
func (a *agent) started(t *testing.T, name string) (began, ended []time.Time) {
	t.Helper()
	rows, err := a.sql(`SELECT event, at FROM transitions WHERE pod = ?1 AND container = 'a' AND event IN ('start', 'exit') ORDER BY rowid`, static(name))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		at, err := time.Parse(time.RFC3339Nano, r["at"].(string))
		if err != nil {
			t.Fatal(err)
		}
		if r["event"] == "start" {
			began = append(began, at)
		} else {
			ended = append(ended, at)
		}
	}
	return began, ended
}

// attempts counts them, by Podman's labels.
func (a *agent) attempts(t *testing.T, name string) int {
	t.Helper()
	highest := -1
	for _, c := range a.containers(t, static(name)) {
		if !c.Infra {
			highest = max(highest, c.attempt())
		}
	}
	return highest + 1
}

// checkDelays fails when an attempt after the second came too early.
func (a *agent) checkDelays(t *testing.T, name string) {
	t.Helper()
	began, ended := a.started(t, name)
	for i := 2; i < len(began) && i <= len(ended); i++ {
		// 10 s after the first restart, doubling. History is written a little late.
		wait := 10 * time.Second << (i - 2)
		if gap := began[i].Sub(ended[i-1]); gap < wait-time.Second {
			t.Errorf("attempt %d began %s after the end of the one before, and was to wait %s", i, gap, wait)
		}
	}
}
