package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// The longer Podman is away, the longer the back-off; that is no reason to wait
// once it is back.
func TestRuntimeThatComesBackIsAskedAtOnce(t *testing.T) {
	for name, test := range map[string]func(r *rig){
		"a pod is wanted meanwhile": func(r *rig) {
			r.fake.StopService()
			uid := r.submit(podOf("web", "a"))
			r.pass(20 * time.Minute)
			if b := r.backoff(uid, "", pod.BackoffSandbox); b.Failures < 3 || !b.Unavailable {
				r.Fatalf("back-off %+v", b)
			}
			r.fake.StartService()
			r.pass(3 * time.Second)
			r.runs(uid, "a")
		},
		"one is to go": func(r *rig) {
			uid := r.submit(podOf("web", "a"))
			r.pass(5 * time.Second)
			r.fake.StopService()
			r.withdraw("web", nil)
			r.pass(20 * time.Minute)
			r.fake.StartService()
			r.pass(5 * time.Second)
			r.gone(uid)
		},
		"one is edited": func(r *rig) {
			p := podOf("web", "a")
			uid := r.submit(p)
			r.pass(5 * time.Second)
			r.fake.StopService()
			p.Spec.Containers[0].Args = []string{"new"}
			r.submit(p)
			r.pass(20 * time.Minute)
			r.fake.StartService()
			r.pass(5 * time.Second)
			if a := r.runs(uid, "a")["a"]; changes(a.Revision) != 2 {
				r.Errorf("revision %d runs", a.Revision)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { observed(t, test) })
	}
}

// What failed for another reason waits all the same.
func TestEndOfAnOutageEndsNoOtherBackoff(t *testing.T) {
	observed(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpCreateContainer, Class: pod.Internal})
		uid := r.submit(podOf("web", "a"))
		r.pass(10 * time.Minute)
		before := r.backoff(uid, "a", pod.BackoffCreate)
		r.fake.StopService()
		r.pass(2 * time.Second)
		r.fake.StartService()
		r.pass(2 * time.Second)
		if after := r.backoff(uid, "a", pod.BackoffCreate); after != before {
			r.Errorf("back-off %+v; was %+v", after, before)
		}
	})
}

func TestPullDoesNotHoldUpTheRestartOfAnotherContainer(t *testing.T) {
	observed(t, func(r *rig) {
		p := podOf("web", "a", "b")
		p.Spec.Containers[0].Image = "example.com/slow"
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpEnsureImage, Image: "example.com/slow:latest", Hang: true})
		uid := r.submit(p)
		r.pass(5 * time.Second)
		b := r.runs(uid, "b")["b"]
		if st := r.status(uid, "b"); st.State.Running == nil {
			r.Errorf("b runs, and its status is %+v", st.State)
		}
		r.fake.KillProcess(b.ID)
		r.pass(2 * time.Second)
		if b := r.runs(uid, "b")["b"]; b.Attempt != 1 {
			r.Errorf("attempt %d of b runs", b.Attempt)
		}
		r.watch.counts()
		r.fake.ForgetCalls()
		r.pass(time.Hour)
		if loads, writes := r.watch.counts(); writes > 0 || loads > 120 {
			r.Errorf("%d loads and %d writes in an hour of waiting", loads, writes)
		}
		r.withdraw("web", nil)
		r.pass(35 * time.Second)
		r.gone(uid)
	})
}

func TestNoisyNeighbourOfALongPullIsRestartedAtOnce(t *testing.T) {
	observed(t, func(r *rig) {
		p := podOf("web", "a", "b")
		p.Spec.Containers[0].Image = "example.com/slow"
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpEnsureImage, Image: "example.com/slow:latest", Hang: true})
		uid := r.submit(p)
		r.pass(5 * time.Second)
		for attempt := range 25 { // each a round that the pull is cut short for
			r.fake.KillProcess(r.runs(uid, "b")["b"].ID)
			r.pass(11 * time.Minute) // longer than any back-off
			if b := r.runs(uid, "b")["b"]; b.Attempt != attempt+1 {
				r.Fatalf("attempt %d of b runs, want %d", b.Attempt, attempt+1)
			}
		}
		r.fake.KillProcess(r.runs(uid, "b")["b"].ID)
		r.pass(time.Second)
		if b := r.runs(uid, "b")["b"]; b.Attempt != 26 {
			r.Errorf("attempt %d of b runs after a second", b.Attempt)
		}
	})
}

// A worker that makes no headway pauses; an edit is heard all the same.
func TestEditIsHeardInAPause(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.watch.set(func(w *watchedStore) { w.dropFacts = true })
		p := podOf("web", "a")
		uid := r.submit(p)
		r.pass(10 * time.Minute)
		r.watch.counts()
		r.pass(time.Minute)
		if loads, _ := r.watch.counts(); loads > 10 {
			r.Fatalf("%d loads in a minute: it does not pause", loads)
		}
		r.watch.set(func(w *watchedStore) { w.dropFacts = false })
		p.Spec.Containers[0].Args = []string{"new"}
		r.submit(p)
		r.pass(2 * time.Second)
		if a := r.runs(uid, "a")["a"]; changes(a.Revision) != 2 {
			r.Errorf("revision %d runs", a.Revision)
		}
	})
}

func TestUnreadablePodIsToldAndCanBeDeleted(t *testing.T) {
	inBubble(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second)
		r.runs(uid, "a")
		r.stop()
		r.must(r.store.Close())
		r.restore = func([]byte) (*corev1.Pod, error) { return nil, errors.New("spec.containers[0].args: unknown field") }
		r.openStore()
		r.start()
		r.watch.counts()
		r.pass(time.Hour)
		if loads, _ := r.watch.counts(); loads > 10 {
			r.Errorf("it was looked at %d times", loads)
		}
		d, err := r.store.Pod(r.Context(), pod.Key{Namespace: "default", Name: "web"})
		r.must(err)
		if st := d.Status; st.Reason != lifecycle.ReasonUnreadable || !strings.Contains(st.Message, "unknown field") || st.Phase != corev1.PodRunning {
			r.Errorf("status %s, %s: %s", st.Phase, st.Reason, st.Message)
		}
		if e := r.events(uid, lifecycle.ReasonUnreadable); len(e) != 1 || e[0].Count != 1 {
			r.Errorf("events %+v", e)
		}
		r.runs(uid, "a")
		r.withdraw("web", nil)
		r.pass(5 * time.Second)
		r.gone(uid)
	})
}

func TestSandboxThatCannotBeLookedAtCostsItsContainersNothing(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(5 * time.Second)
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpInspectSandbox, After: 1, Times: 20, Class: pod.Unavailable})
		r.fake.KillProcess(r.load(uid).Observed.Sandboxes[0].InfraID)
		r.pass(10 * time.Minute)
		if a := r.runs(uid, "a")["a"]; a.Attempt != 1 {
			r.Errorf("attempt %d runs; want one restart with the sandbox", a.Attempt)
		}
		if b := r.backoff(uid, "", pod.BackoffSandbox); b.Failures != 0 {
			r.Errorf("back-off is left: %+v", b)
		}
	})
}

func TestFailureOfTheSandboxIsInTheHistoryOfThePod(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpCreateSandbox, Times: 1, Class: pod.Internal})
		uid := r.submit(podOf("web", "a"))
		r.pass(30 * time.Second)
		r.runs(uid, "a")
		r.wantHistory(uid, "", "submit/source", "hold/runtime", "run/source")
		if d := r.history(uid, "")[1].Detail; !strings.HasPrefix(d, "FailedCreatePodSandBox: ") {
			r.Errorf("held for %q", d)
		}
	})
}

// Podman was killed while it started a container: it says that this one can't be
// started, and its process is not to blame.
func TestStartThatWasCutOffIsMadeAnew(t *testing.T) {
	observed(t, func(r *rig) {
		p := podOf("web", "a")
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpStartContainer, Times: 1, Class: pod.Unavailable}, runtimetest.Fault{Op: runtimetest.OpStartContainer, Times: 1, Class: pod.Invalid})
		uid := r.submit(p)
		r.pass(time.Minute)
		if a := r.runs(uid, "a")["a"]; a.Attempt != 0 {
			r.Errorf("attempt %d runs", a.Attempt)
		}
		if n := len(r.fake.Containers()); n != 1 {
			r.Errorf("%d containers", n)
		}
	})
}

// Someone removes the Podman pod again and again. That is no crash, and what the
// agent tried in the meantime did not fail: the pod is back at once.
func TestPodRemovedByHandIsBackAtOnce(t *testing.T) {
	observed(t, func(r *rig) {
		uid := r.submit(podOf("web", "a", "b"))
		r.pass(5 * time.Second)
		for range 4 {
			box := r.load(uid).Observed.Sandboxes[0]
			for _, c := range r.runs(uid, "a", "b") {
				r.fake.Exit(c.ID, 0) // they obey the SIGTERM that comes first
			}
			r.pass(20 * time.Millisecond)
			r.fake.RemoveBehind(box.ID)
			r.pass(1500 * time.Millisecond)
			r.runs(uid, "a", "b")
		}
		for _, h := range r.history(uid, "a") {
			if h.Event == "hold" {
				r.Errorf("held for %q", h.Detail)
			}
		}
	})
}
