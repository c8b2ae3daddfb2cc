package reconcile_test

import (
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

const years = 10 * 365 * 24 * time.Hour

// jumps runs a test with the wall clock jumping either way, by much and by little.
func jumps(t *testing.T, test func(r *rig, jump time.Duration)) {
	for _, jump := range []time.Duration{-years, -3 * time.Minute, 3 * time.Minute, years} {
		t.Run(jump.String(), func(t *testing.T) {
			observed(t, func(r *rig) { test(r, jump) })
		})
	}
}

func (r *rig) jumpBy(d time.Duration) { r.jump.Add(int64(d)) }

func TestClockJumpsDisturbNothingThatRuns(t *testing.T) {
	jumps(t, func(r *rig, jump time.Duration) {
		uid := r.submit(podOf("web", "init", "a", "b"))
		r.fake.SetScript("init", runtimetest.Script{Lives: time.Second})
		r.pass(5 * time.Second)
		before := r.runs(uid, "a", "b")
		r.jumpBy(jump)
		r.pass(time.Hour)
		r.watch.counts()
		r.pass(time.Minute)
		if after := r.runs(uid, "a", "b"); after["a"].ID != before["a"].ID || after["b"].ID != before["b"].ID {
			r.Errorf("live %+v; was %+v", after, before)
		}
		r.fake.KillProcess(before["a"].ID)
		r.pass(5 * time.Second)
		if after := r.runs(uid, "a", "b"); after["a"].Attempt != 1 || after["b"].ID != before["b"].ID {
			r.Errorf("live %+v; was %+v", after, before)
		}
		r.jumpBy(-jump)
		r.pass(time.Hour)
		if after := r.runs(uid, "a", "b"); after["a"].Attempt != 1 || after["b"].ID != before["b"].ID {
			r.Errorf("once it is put right, live %+v; was %+v", after, before)
		}
	})
}

func TestClockJumpsWhileTheSandboxIsStartedAgain(t *testing.T) {
	jumps(t, func(r *rig, jump time.Duration) {
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second)
		r.jumpBy(jump)
		r.fake.KillProcess(r.load(uid).Observed.Sandboxes[0].InfraID)
		r.pass(5 * time.Second)
		if a := r.runs(uid, "a")["a"]; a.Attempt != 1 {
			r.Errorf("attempt %d runs; want the second", a.Attempt)
		}
		r.pass(time.Hour)
		if a := r.runs(uid, "a")["a"]; a.Attempt != 1 {
			r.Errorf("attempt %d runs after an hour; want the second", a.Attempt)
		}
	})
}

func TestClockJumpsWithinABackoff(t *testing.T) {
	jumps(t, func(r *rig, jump time.Duration) {
		r.fake.SetScript("a", runtimetest.Script{Lives: time.Second, ExitCode: 1})
		uid := r.submit(podOf("web", "a"))
		for r.backoff(uid, "a", pod.BackoffCrash).Failures < 5 {
			r.pass(time.Second)
		}
		attempts := r.load(uid).Desired.Containers[0].Attempt
		r.jumpBy(jump)
		r.pass(6 * time.Minute) // the longest back-off, and then some
		got := r.load(uid).Desired.Containers[0].Attempt
		if got == attempts {
			r.Errorf("stalled at attempt %d: %+v", got, r.backoff(uid, "a", pod.BackoffCrash))
		}
		if got > attempts+4 {
			r.Errorf("from attempt %d to %d in six minutes", attempts, got)
		}
	})
}

func TestClockJumpsWithinATermination(t *testing.T) {
	jumps(t, func(r *rig, jump time.Duration) {
		r.fake.SetScript("a", runtimetest.Script{StopTakes: time.Hour})
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second)
		r.withdraw("web", nil)
		r.pass(5 * time.Second)
		r.jumpBy(jump)
		soon := 2 * time.Second
		r.withdraw("web", &soon)
		r.pass(5 * time.Second)
		r.gone(uid)
	})
}

func TestClockJumpsWithinATerminationThatGoesOn(t *testing.T) {
	jumps(t, func(r *rig, jump time.Duration) {
		r.fake.SetScript("a", runtimetest.Script{StopTakes: time.Hour})
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second)
		r.withdraw("web", nil)
		r.pass(time.Second)
		r.jumpBy(jump)
		longer := time.Hour
		r.withdraw("web", &longer)
		r.pass(20 * time.Second)
		if len(r.fake.Live(uid, "a")) != 1 {
			r.Error("its grace was cut short")
		}
		r.pass(20 * time.Second)
		r.gone(uid)
	})
}

// A container that someone starts again in Podman has an earlier time if the
// clock was set back.
func TestClockJumpsBetweenTwoRunsOfOneContainer(t *testing.T) {
	jumps(t, func(r *rig, jump time.Duration) {
		p := podOf("web", "a")
		p.Spec.RestartPolicy = "Never"
		uid := r.submit(p)
		r.pass(5 * time.Second)
		a := r.runs(uid, "a")["a"]
		r.jumpBy(jump)
		r.fake.Exit(a.ID, 1)
		r.fake.StartByHand(a.ID)
		r.pass(2 * time.Minute)
		r.runs(uid, "a")
	})
}
