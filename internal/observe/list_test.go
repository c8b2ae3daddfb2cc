package observe_test

import (
	"testing"
	"testing/synctest"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

func TestFirstListingTellsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, b := r.running("a"), r.running("b")
		r.fake.Exit(b.ID, 4)
		r.fake.Foreign("stranger", nil)
		r.start()
		select {
		case <-r.observer.Synced():
			r.Fatal("synced before the first listing")
		default:
		}
		if r.observer.Health() == nil {
			r.Error("healthy before the first listing")
		}
		<-r.observer.Synced()
		r.pass(time.Second)
		if got := r.stored(a.ID); got.State != pod.RunRunning || !got.StartedAt.Equal(a.StartedAt.Truncate(time.Microsecond)) {
			r.Errorf("a: %#v", got)
		}
		if got := r.stored(b.ID); got.State != pod.RunExited || got.ExitCode != 4 {
			r.Errorf("b: %#v", got)
		}
		if err := r.observer.Health(); err != nil {
			r.Error(err)
		}
		facts := r.store.take()
		if len(facts) != 1 || !facts[0].Complete || len(facts[0].Sandboxes) != 2 || len(facts[0].Containers) != 2 {
			r.Errorf("facts %#v", facts)
		}
	})
}

func TestListingsAreAsFarApartAsAsked(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.running("a")
		r.pass(time.Second)
		r.fake.ForgetCalls()
		r.store.take()
		r.pass(10 * relist)
		if n := len(r.fake.Calls(runtimetest.OpList)); n != 10 {
			r.Errorf("%d listings in 10 periods", n)
		}
		if n := len(r.fake.Calls(inspections...)); n > 0 {
			r.Errorf("%d inspections of what the listings show unchanged", n)
		}
	})
}

func TestListingFindsWhatTheStreamLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		ended, removed := r.running("ended"), r.running("removed")
		r.pass(time.Second)
		r.fake.Mute(true)
		r.fake.Exit(ended.ID, 5)
		r.fake.RemoveBehind(removed.ID)
		r.fake.RemoveBehind(removed.SandboxID)
		made := r.running("made")
		r.fake.Mute(false)
		r.pass(relist)
		if got := r.stored(ended.ID); got.State != pod.RunExited || got.ExitCode != 5 {
			r.Errorf("ended: %#v", got)
		}
		r.wantGone(removed.ID)
		if _, err := r.store.Sandbox(r.Context(), removed.SandboxID); pod.ClassOf(err) != pod.NotFound {
			r.Errorf("the removed sandbox is still stored (%v)", err)
		}
		if got := r.stored(made.ID); got.State != pod.RunRunning || got.LogPath == "" {
			r.Errorf("made: %#v", got)
		}
	})
}

// What was made or removed while a listing was on its way is newer than it.
func TestSlowListingUndoesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		old := r.running("old")
		r.pass(time.Second)
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpList, Times: 1, Applied: true, Delay: 5 * time.Second})
		r.observer.Resync()
		r.pass(time.Second)
		made := r.running("made")
		r.fake.RemoveBehind(old.ID)
		r.pass(time.Second)
		if got := r.stored(made.ID); got.State != pod.RunRunning {
			r.Fatalf("made: %#v", got)
		}
		r.pass(10 * time.Second) // the listing has arrived
		if got := r.stored(made.ID); got.State != pod.RunRunning {
			r.Errorf("what was made meanwhile is %s by an older listing", got.State)
		}
		r.wantGone(old.ID)
		r.pass(relist)
		if got := r.stored(made.ID); got.State != pod.RunRunning {
			r.Errorf("made: %#v", got)
		}
	})
}

func TestHungListingHoldsUpNoEvent(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.running("a")
		r.pass(time.Second)
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpList, Times: 1, Hang: true})
		r.observer.Resync()
		r.pass(time.Second)
		r.fake.Exit(c.ID, 1)
		r.pass(time.Second)
		if got := r.stored(c.ID); got.State != pod.RunExited {
			r.Errorf("it is stored as %s", got.State)
		}
	})
}

func TestOverdueListingIsTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpList, Times: 1, Delay: 40 * time.Second})
		r.observer.Resync()
		r.pass(10 * time.Second)
		if err := r.observer.Health(); err != nil {
			r.Errorf("a listing that takes 10 s: %v", err)
		}
		r.pass(20 * time.Second)
		if err := r.observer.Health(); pod.ClassOf(err) != pod.Unavailable {
			r.Errorf("a listing that takes 30 s: %v", err)
		}
		r.pass(20 * time.Second)
		if err := r.observer.Health(); err != nil {
			r.Errorf("it was answered: %v", err)
		}
	})
}

func TestFailedListingIsTakenAgainAndTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpList, Times: 5, Class: pod.Unavailable})
		r.observer.Resync()
		r.pass(2 * time.Second)
		if pod.ClassOf(r.observer.Health()) != pod.Unavailable {
			r.Errorf("health %v", r.observer.Health())
		}
		r.pass(20 * time.Second)
		if err := r.observer.Health(); err != nil {
			r.Error(err)
		}
		if n := len(r.fake.Calls(runtimetest.OpList)); n != 6 {
			r.Errorf("%d listings; want 5 that fail and 1", n)
		}
	})
}

func TestBrokenStreamIsOpenedAgainAndListed(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.running("a")
		r.pass(time.Second)
		r.fake.ForgetCalls()
		r.fake.StopService()
		r.fake.Exit(c.ID, 6) // nobody can tell
		r.pass(20 * time.Second)
		if pod.ClassOf(r.observer.Health()) != pod.Unavailable {
			r.Errorf("health %v", r.observer.Health())
		}
		tries := r.fake.Calls(runtimetest.OpEvents)
		if len(tries) < 15 || len(tries) > 30 {
			r.Errorf("tried to open the stream %d times in 20 s", len(tries))
		}
		for i := 2; i < len(tries); i++ {
			if before, now := tries[i-1].Begun.Sub(tries[i-2].Begun), tries[i].Begun.Sub(tries[i-1].Begun); now < before || now > time.Second {
				r.Errorf("waited %s, then %s", before, now)
			}
		}
		r.fake.StartService()
		r.pass(2 * time.Second)
		if got := r.stored(c.ID); got.State != pod.RunExited || got.ExitCode != 6 {
			r.Errorf("stored: %#v", got)
		}
		if err := r.observer.Health(); err != nil {
			r.Error(err)
		}
		other := r.running("other")
		r.pass(time.Second)
		if got := r.stored(other.ID); got.State != pod.RunRunning {
			r.Errorf("other: %#v", got)
		}
		r.fake.ForgetCalls()
		r.pass(time.Hour)
		r.fake.BreakStreams()
		r.pass(time.Second)
		if n := len(r.fake.Calls(runtimetest.OpEvents)); n != 1 {
			r.Errorf("after an hour of health it tried %d times in the first second; the delay starts over", n)
		}
	})
}

// A listing that was under way when the stream broke says nothing of the stream.
func TestListingDoesNotHideABrokenStream(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Inject(
			runtimetest.Fault{Op: runtimetest.OpList, Times: 1, Delay: time.Second},
			runtimetest.Fault{Op: runtimetest.OpEvents, Class: pod.Unavailable},
		)
		r.observer.Resync()
		synctest.Wait()
		r.fake.BreakStreams()
		for range 30 {
			r.pass(100 * time.Millisecond)
			if r.observer.Health() == nil {
				r.Fatal("healthy with no stream")
			}
		}
		r.fake.ClearFaults()
		r.pass(10 * time.Second)
		if err := r.observer.Health(); err != nil {
			r.Error(err)
		}
	})
}

func TestRebootIsToldWithAListing(t *testing.T) {
	inBubble(t, func(r *rig) {
		for _, rebooted := range []bool{false, true} {
			r.rebooted.Store(rebooted)
			r.observer.Resync()
			r.pass(time.Second)
			facts := r.store.take()
			if len(facts) != 1 || !facts[0].Complete || facts[0].Rebooted != rebooted {
				r.Errorf("rebooted %v, facts %#v", rebooted, facts)
			}
		}
	})
}

func TestStoppingIsPrompt(t *testing.T) {
	for _, how := range []string{"at rest", "hung", "retrying"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				c := r.running("a")
				r.pass(time.Second)
				switch how {
				case "hung":
					r.fake.HangService()
				case "retrying":
					r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpInspectContainer, Class: pod.Internal})
				}
				r.fake.Exit(c.ID, 1)
				r.observer.Resync()
				r.pass(100 * time.Millisecond)
				begun := time.Now()
				r.stop()
				if took := time.Since(begun); took > 0 {
					r.Errorf("it took %s", took)
				}
			})
		})
	}
}
