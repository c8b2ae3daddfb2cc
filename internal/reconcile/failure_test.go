package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

func TestImageThatCannotBeHad(t *testing.T) {
	const image = "example.com/app:1"
	for _, tc := range []struct {
		name          string
		policy        corev1.PullPolicy
		registry      runtimetest.Registry
		first, second string // waiting reasons
	}{
		{"no such image", corev1.PullIfNotPresent, runtimetest.Registry{Answer: runtimetest.RegistryHasNot}, "ErrImagePull", "ImagePullBackOff"},
		{"denied", corev1.PullAlways, runtimetest.Registry{Answer: runtimetest.RegistryDenies}, "ErrImagePull", "ImagePullBackOff"},
		{"unreachable", corev1.PullAlways, runtimetest.Registry{}, "ErrImagePull", "ImagePullBackOff"},
		{"never to be pulled", corev1.PullNever, runtimetest.Registry{}, "ErrImageNeverPull", "ErrImageNeverPull"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.fake.Images().SetRegistry(image, tc.registry)
				p := podOf("web", "a", "b")
				p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = image, tc.policy
				uid := r.submit(p)
				r.pass(5 * time.Second)
				r.runs(uid, "b")
				r.wantWaiting(uid, "a", tc.first)
				r.wantHistory(uid, "a", "submit/source", "hold/image")
				if d := r.history(uid, "a")[1].Detail; !strings.HasPrefix(d, tc.first+": ") {
					r.Errorf("held with %q", d)
				}
				b := r.backoff(uid, "a", pod.BackoffImage)
				if b.Failures != 1 || b.Until.Sub(b.LastAt) != 10*time.Second || b.Message == "" {
					r.Errorf("back-off %+v", b)
				}
				failed := r.events(uid, "Failed")
				if len(failed) != 2 || failed[0].Type != corev1.EventTypeWarning || failed[1].Message != "Error: "+tc.first {
					r.Errorf("events %+v", failed)
				}
				r.pass(10 * time.Second)
				r.wantWaiting(uid, "a", tc.second)
				if b := r.backoff(uid, "a", pod.BackoffImage); b.Failures != 2 || b.Until.Sub(b.LastAt) != 20*time.Second {
					r.Errorf("back-off %+v", b)
				}
				r.fake.Images().Add(image)
				r.fake.Images().SetRegistry(image, runtimetest.Registry{Answer: runtimetest.RegistryHas})
				r.pass(25 * time.Second)
				r.runs(uid, "a", "b")
				if b := r.backoff(uid, "a", pod.BackoffImage); b.Failures != 0 {
					r.Errorf("back-off is left: %+v", b)
				}
			})
		})
	}
}

func (r *rig) wantWaiting(uid types.UID, container, reason string) {
	r.Helper()
	cs := r.status(uid, container)
	if cs.State.Waiting == nil || cs.State.Waiting.Reason != reason {
		r.Errorf("%s is %+v; want it waiting for %s", container, cs.State, reason)
	}
}

func TestPresentImageIsUsedWhenTheRegistryIsAway(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := podOf("web", "a")
		p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		uid := r.submit(p)
		r.pass(time.Second)
		r.runs(uid, "a")
		if e := r.events(uid, "RegistryUnavailable"); len(e) != 1 || e[0].Type != corev1.EventTypeWarning {
			r.Errorf("events %+v", e)
		}
	})
}

func TestFailedCallsAreBackedOffAndSayWhy(t *testing.T) {
	for _, tc := range []struct {
		op        runtimetest.Op
		class     pod.Class
		kind      pod.BackoffKind
		container string
		reason    string // of the back-off
		event     string
		waiting   string // of the container's status
	}{
		{runtimetest.OpCreateSandbox, pod.Internal, pod.BackoffSandbox, "", "FailedCreatePodSandBox", "FailedCreatePodSandBox", "ContainerCreating"},
		{runtimetest.OpStartSandbox, pod.Conflict, pod.BackoffSandbox, "", "FailedCreatePodSandBox", "FailedCreatePodSandBox", "ContainerCreating"},
		{runtimetest.OpEnsureVolumes, pod.Invalid, pod.BackoffVolume, "", "FailedMount", "FailedMount", "ContainerCreating"},
		{runtimetest.OpCreateContainer, pod.Invalid, pod.BackoffCreate, "a", "CreateContainerError", "Failed", "CreateContainerError"},
		{runtimetest.OpStartContainer, pod.Unavailable, pod.BackoffCreate, "a", "RunContainerError", "Failed", "RunContainerError"},
	} {
		t.Run(string(tc.op), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.fake.Inject(runtimetest.Fault{Op: tc.op, Class: tc.class})
				uid := r.submit(podOf("web", "a"))
				r.pass(5 * time.Second)
				if live := r.fake.Live(uid, ""); len(live) > 0 {
					r.Fatalf("live: %v", live)
				}
				b := r.backoff(uid, tc.container, tc.kind)
				if b.Failures != 1 || b.Reason != tc.reason || b.Until.Sub(b.LastAt) != 10*time.Second {
					r.Errorf("back-off %+v; want the first, for %s", b, tc.reason)
				}
				if e := r.events(uid, tc.event); len(e) != 1 || e[0].Type != corev1.EventTypeWarning {
					r.Errorf("events %+v", e)
				}
				r.wantWaiting(uid, "a", tc.waiting)
				if tc.container != "" {
					r.wantHistory(uid, "a", "submit/source", "hold/runtime")
				}
				r.pass(time.Hour)
				most := r.backoff(uid, tc.container, tc.kind)
				if most.Until.Sub(most.LastAt) != 5*time.Minute {
					r.Errorf("after an hour it waits %s; want 5 min", most.Until.Sub(most.LastAt))
				}
				if n := len(r.fake.Calls(tc.op)); n > 20 {
					r.Errorf("tried %d times in an hour", n)
				}
				r.fake.ClearFaults()
				r.pass(5*time.Minute + 5*time.Second)
				r.runs(uid, "a")
				if left := r.load(uid).Desired.Backoffs; len(left) > 0 {
					r.Errorf("back-offs are left: %+v", left)
				}
			})
		})
	}
}

func TestCallsAppliedButReportedAsFailed(t *testing.T) {
	for _, op := range []runtimetest.Op{
		runtimetest.OpCreateSandbox, runtimetest.OpStartSandbox, runtimetest.OpCreateContainer, runtimetest.OpStartContainer,
		runtimetest.OpStopContainer, runtimetest.OpRemoveContainer, runtimetest.OpRemoveSandbox, runtimetest.OpEnsureVolumes, runtimetest.OpRemoveVolumes,
	} {
		for _, hang := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hangs %v", op, hang), func(t *testing.T) {
				observed(t, func(r *rig) {
					fault := runtimetest.Fault{Op: op, Times: 1, Class: pod.Unavailable, Applied: true, Hang: hang}
					r.fake.Inject(fault)
					p := withVolume(podOf("web", "a", "b"))
					uid := r.submit(p)
					r.pass(5 * time.Minute)
					before := r.runs(uid, "a", "b")
					for _, edit := range []string{"first", "second", "third"} { // stops, removals of old attempts
						p.Spec.Containers[0].Args = []string{edit}
						r.submit(p)
						r.pass(5 * time.Minute)
					}
					if after := r.runs(uid, "a", "b"); after["b"] != before["b"] {
						r.Errorf("b was touched: %#v, was %#v", after["b"], before["b"])
					}
					if n := len(r.fake.Containers()); n > 3 {
						r.Errorf("%d containers; want a, the one before it, and b", n)
					}
					r.withdraw("web", nil)
					r.pass(5 * time.Minute)
					r.gone(uid)
					if !failed(r.fake.Calls(op)) {
						r.Errorf("no call %q met the fault", op)
					}
				})
			})
		}
	}
}

func failed(calls []runtimetest.Call) bool {
	for _, c := range calls {
		if c.Err != nil {
			return true
		}
	}
	return false
}

func TestProcessThatCannotBeStarted(t *testing.T) {
	observed(t, func(r *rig) {
		r.fake.SetScript("a", runtimetest.Script{Broken: "no such file: /bin/web"}, runtimetest.Script{Broken: "no such file: /bin/web"}, runtimetest.Script{})
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second)
		cs := r.status(uid, "a")
		if cs.State.Waiting == nil || cs.State.Waiting.Reason != "CrashLoopBackOff" || cs.RestartCount != 1 {
			r.Errorf("status %+v", cs)
		}
		if last := cs.LastTerminationState.Terminated; last == nil || last.Reason != "StartError" || last.ExitCode != 128 || !strings.Contains(last.Message, "/bin/web") {
			r.Errorf("ended before as %+v", last)
		}
		r.wantHistory(uid, "a", "submit/source", "exit/exit", "restart/exit", "exit/exit", "restart/exit")
		r.pass(2 * time.Minute) // a listing in between calls it created
		if c := r.runs(uid, "a")["a"]; c.Attempt != 2 {
			r.Errorf("attempt %d runs; want 2", c.Attempt)
		}
	})
}

func TestCrashLoopIsBackedOff(t *testing.T) {
	observed(t, func(r *rig) {
		r.fake.SetScript("a", runtimetest.Script{Lives: time.Second, ExitCode: 7})
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second) // two runs: the first restart is immediate
		r.wantHistory(uid, "a", "submit/source", "start/agent", "exit/exit", "restart/exit", "start/agent", "exit/exit", "restart/exit")
		r.wantWaiting(uid, "a", "CrashLoopBackOff")
		r.wantState(uid, pod.StateRunning)
		r.pass(time.Hour)
		n := len(r.fake.Calls(runtimetest.OpStartContainer))
		if n < 14 || n > 18 {
			r.Errorf("started %d times in an hour; kubelet would 16 times", n)
		}
		if kept := r.fake.Containers(); len(kept) != 2 {
			r.Errorf("%d containers are kept; want the last two", len(kept))
		}
	})
}

func TestRuntimeAwayForAWhile(t *testing.T) {
	for _, how := range []string{"down", "hung"} {
		t.Run(how, func(t *testing.T) {
			observed(t, func(r *rig) {
				first := r.submit(podOf("first", "a"))
				r.pass(time.Second)
				before := r.runs(first, "a")
				if how == "down" {
					r.fake.StopService()
				} else {
					r.fake.HangService()
				}
				second := r.submit(podOf("second", "a"))
				r.withdraw("first", nil)
				r.pass(3 * time.Minute)
				if live := r.fake.Live(first, ""); len(live) != 1 || live[0] != before["a"] {
					r.Errorf("live meanwhile: %v", live)
				}
				r.fake.StartService()
				r.pass(6 * time.Minute)
				r.gone(first)
				r.runs(second, "a")
			})
		})
	}
}

func TestRuntimeThatLiesIsNotAskedInATightLoop(t *testing.T) {
	for _, op := range []runtimetest.Op{
		runtimetest.OpCreateSandbox, runtimetest.OpStartSandbox, runtimetest.OpCreateContainer, runtimetest.OpStartContainer, runtimetest.OpStopContainer,
	} {
		t.Run(string(op), func(t *testing.T) {
			observed(t, func(r *rig) {
				r.fake.Inject(runtimetest.Fault{Op: op, Lie: true})
				p := podOf("web", "a")
				uid := r.submit(p)
				r.pass(10 * time.Second)
				p.Spec.Containers[0].Args = []string{"edited"}
				r.submit(p)
				r.pass(10 * time.Second)
				r.fake.ForgetCalls()
				r.pass(10 * time.Minute)
				if n := len(r.fake.Calls(changing...)) + len(r.fake.Calls(runtimetest.OpStopContainer)); n > 120 {
					r.Errorf("%d calls in 10 min", n)
				}
				r.fake.ClearFaults()
				r.pass(12 * time.Minute)
				r.runs(uid, "a")
			})
		})
	}
}

// Whatever the reason, a pod that never gets to be as planned costs little.
func TestPodThatDoesNotSettleIsNotWorkedOnAllTheTime(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.watch.set(func(s *watchedStore) { s.dropFacts = true })
		uid := r.submit(podOf("web", "a"))
		r.pass(time.Minute)
		r.fake.ForgetCalls()
		r.pass(10 * time.Minute)
		if n := len(r.fake.Calls(runtimetest.OpStartSandbox)); n < 15 || n > 35 {
			r.Errorf("%d rounds in 10 min; want one every 20 s", n)
		}
		r.watch.set(func(s *watchedStore) { s.dropFacts = false })
		r.pass(time.Minute)
		r.runs(uid, "a")
	})
}

func TestStoreThatFailsForAWhile(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.watch.set(func(s *watchedStore) { s.failLoads = &pod.Error{Class: pod.Unavailable, Op: "load"} })
		uid := r.submit(podOf("web", "a"))
		r.pass(time.Minute)
		if n := len(r.fake.Calls()); n > 0 {
			r.Errorf("%d calls without knowing what is desired", n)
		}
		if loads, _ := r.watch.counts(); loads > 70 {
			r.Errorf("tried %d times in a minute", loads)
		}
		r.watch.set(func(s *watchedStore) { s.failLoads = nil })
		r.pass(5 * time.Second)
		r.runs(uid, "a")
	})
}

// What was done while the disk was full is not done again, however soon or late
// it can be written down.
func TestWhatCouldNotBeStoredIsStoredLater(t *testing.T) {
	for _, long := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond, time.Minute} {
		t.Run(long.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.watch.set(func(s *watchedStore) { s.failFacts = &pod.Error{Class: pod.Unavailable, Op: "record observations"} })
				uid := r.submit(podOf("web", "a", "b"))
				r.pass(long)
				r.watch.set(func(s *watchedStore) { s.failFacts = nil })
				r.pass(5 * time.Second)
				for name, c := range r.runs(uid, "a", "b") {
					if c.Attempt != 0 {
						r.Errorf("%s is at attempt %d", name, c.Attempt)
					}
				}
				r.wantHistory(uid, "a", "submit/source", "start/agent")
				if n := len(r.fake.Lives()); n != 3 {
					r.Errorf("%d processes for a sandbox and two containers", n)
				}
				if n := len(r.fake.Calls(runtimetest.OpCreateSandbox, runtimetest.OpCreateContainer)); n != 3 {
					r.Errorf("%d calls to make a sandbox and two containers", n)
				}
			})
		})
	}
}
