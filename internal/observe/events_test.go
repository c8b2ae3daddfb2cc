package observe_test

import (
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
	"podstead.io/podstead/internal/store"
)

// inspections are the calls that ask about one thing.
var inspections = []runtimetest.Op{runtimetest.OpInspectContainer, runtimetest.OpInspectSandbox}

func TestEventsBecomeFacts(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.running("a")
		r.pass(time.Second)
		if got := r.stored(c.ID); got.State != pod.RunRunning || got.PID != c.PID || got.ImageID != r.image {
			r.Errorf("after the start: %#v", got)
		}
		box, err := r.store.Sandbox(r.Context(), c.SandboxID)
		r.must(err)
		if box.State != pod.RunRunning || len(box.IPs) != 1 {
			r.Errorf("its sandbox: %#v", box)
		}
		r.fake.Pause(c.ID)
		r.pass(time.Second)
		if got := r.stored(c.ID); got.State != pod.RunPaused {
			r.Errorf("paused: %#v", got)
		}
		r.fake.Unpause(c.ID)
		r.pass(time.Second)
		if got := r.stored(c.ID); got.State != pod.RunRunning {
			r.Errorf("resumed: %#v", got)
		}
		r.fake.Exit(c.ID, 3)
		r.pass(time.Second)
		if got := r.stored(c.ID); got.State != pod.RunExited || got.ExitCode != 3 || got.EndCause != pod.CauseExit || got.FinishedAt.IsZero() {
			r.Errorf("after its end: %#v", got)
		}
		r.fake.RemoveBehind(c.ID)
		r.pass(time.Second)
		r.wantGone(c.ID)
		if n := len(r.fake.Calls(runtimetest.OpList)); n > 0 {
			r.Errorf("%d listings; events were enough", n)
		}
	})
}

func TestEndOfAnInfraContainerIsItsSandboxs(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.running("a")
		r.pass(time.Second)
		box := r.fake.Sandboxes()[0]
		r.fake.KillProcess(box.InfraID)
		r.pass(time.Second)
		got, err := r.store.Sandbox(r.Context(), box.ID)
		r.must(err)
		if got.State != pod.RunExited || got.ExitedAt.IsZero() {
			r.Errorf("the sandbox: %#v", got)
		}
		if _, err := r.store.Container(r.Context(), box.InfraID); pod.ClassOf(err) != pod.NotFound {
			r.Errorf("the infra container is stored as a container (%v)", err)
		}
		r.fake.RemoveBehind(box.ID)
		r.pass(time.Second)
		if _, err := r.store.Sandbox(r.Context(), box.ID); pod.ClassOf(err) != pod.NotFound {
			r.Errorf("the removed sandbox is still stored (%v)", err)
		}
		r.wantGone(c.ID)
	})
}

func TestWhoEndedIt(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(f *runtimetest.Fake, id string)
		want pod.Cause
	}{
		{"by itself", func(f *runtimetest.Fake, id string) { f.Exit(id, 1) }, pod.CauseExit},
		{"killed past Podman", (*runtimetest.Fake).KillProcess, pod.CauseExit},
		{"podman kill", (*runtimetest.Fake).KillByHand, pod.CauseUser},
		{"podman stop", (*runtimetest.Fake).StopByHand, pod.CauseUser},
		{"out of memory", (*runtimetest.Fake).OOM, pod.CauseOOM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				c := r.running("a")
				r.pass(time.Second)
				tc.do(r.fake, c.ID)
				r.pass(time.Second)
				if got := r.stored(c.ID); got.State != pod.RunExited || got.EndCause != tc.want || tc.want == pod.CauseUser && got.EndDetail == "" {
					r.Errorf("ended for %q (%s) as %s", got.EndCause, got.EndDetail, got.State)
				}
			})
		})
	}
}

// A signal that someone sent and that did not end the process says nothing
// about its end later on.
func TestUsersSignalIsForgottenWhenTheContainerLivesOn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.SetScript("a", runtimetest.Script{IgnoreTERM: true})
		c := r.running("a")
		r.pass(time.Second)
		r.fake.SignalByHand(c.ID)
		r.pass(time.Second)
		r.fake.Exit(c.ID, 1)
		r.pass(time.Second)
		if got := r.stored(c.ID); got.EndCause != pod.CauseExit {
			r.Errorf("ended for %q", got.EndCause)
		}
	})
}

// The agent's own doing is in the store by the time its events are looked at.
func TestWhatIsKnownIsNotInspected(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.created("a")
		r.pass(time.Second)
		r.fake.ForgetCalls()
		tell := func(c pod.Container) { r.must(r.store.Observe(r.Context(), pod.Facts{Containers: []pod.Container{c}})) }
		c.State, c.StartedAt = pod.RunRunning, time.Now()
		tell(c)
		_, err := r.fake.StartContainer(r.Context(), c.ID)
		r.must(err)
		r.pass(time.Second)
		c.State, c.FinishedAt = pod.RunExited, time.Now()
		tell(c)
		r.fake.Exit(c.ID, 0)
		r.pass(time.Second)
		if n := len(r.fake.Calls(inspections...)); n > 0 {
			r.Errorf("%d inspections of what was known", n)
		}
		r.fake.StartByHand(c.ID) // of this the store knows nothing
		r.pass(time.Second)
		if got := r.stored(c.ID); got.State != pod.RunRunning {
			r.Errorf("started again by hand, and stored as %s", got.State)
		}
	})
}

func TestImagesAreListedWhenTheyChange(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Images().Add("example.com/app:1")
		r.fake.Images().Add("example.com/app:2")
		r.pass(time.Second)
		if n := len(r.fake.Calls(runtimetest.OpListImages)); n == 0 || n > 2 {
			r.Errorf("images listed %d times", n)
		}
		var names int
		r.must(r.store.Read(r.Context(), func(tx *store.ReadTx) error {
			return tx.Get(&names, `SELECT count(*) FROM observed_image_names WHERE name LIKE 'example.com/%'`)
		}))
		if names != 2 {
			r.Errorf("%d of the 2 new images are stored", names)
		}
		r.fake.Images().Remove("example.com/app:1")
		r.pass(time.Second)
		r.must(r.store.Read(r.Context(), func(tx *store.ReadTx) error {
			return tx.Get(&names, `SELECT count(*) FROM observed_image_names WHERE name LIKE 'example.com/%'`)
		}))
		if names != 1 {
			r.Errorf("%d images are stored; 1 is left", names)
		}
	})
}

func TestFailedLookIsTakenAgainWithItsHint(t *testing.T) {
	for _, where := range []string{"runtime", "store"} {
		t.Run(where, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				c := r.running("a")
				r.pass(time.Second)
				if where == "runtime" {
					r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpInspectContainer, Times: 3, Class: pod.Unavailable})
				} else {
					r.store.failNext(3)
				}
				r.fake.KillByHand(c.ID)
				r.pass(500 * time.Millisecond)
				if got := r.stored(c.ID); got.State != pod.RunRunning {
					r.Fatalf("the store has it as %s already", got.State)
				}
				r.pass(8 * time.Second)
				if got := r.stored(c.ID); got.State != pod.RunExited || got.EndCause != pod.CauseUser {
					r.Errorf("stored as %s, ended for %q", got.State, got.EndCause)
				}
				if err := r.observer.Health(); err != nil {
					r.Errorf("the stream is open and the last listing succeeded, and yet: %v", err)
				}
			})
		})
	}
}

func TestHungLookHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		stuck, other := r.running("stuck"), r.running("a")
		r.pass(time.Second)
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpInspectContainer, Container: "stuck", Times: 1, Hang: true})
		r.fake.Exit(stuck.ID, 1)
		r.pass(time.Second)
		r.fake.Exit(other.ID, 1)
		r.pass(time.Second)
		if got := r.stored(other.ID); got.State != pod.RunExited {
			r.Errorf("the other is stored as %s", got.State)
		}
		r.pass(3 * time.Minute) // the call's deadline
		if got := r.stored(stuck.ID); got.State != pod.RunExited {
			r.Errorf("the stuck one is stored as %s", got.State)
		}
	})
}
