package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

func TestEditReplacesOnlyWhatChanged(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := podOf("web", "a", "b")
		uid := r.submit(p)
		r.pass(time.Second)
		before := r.runs(uid, "a", "b")
		r.fake.ForgetCalls()
		p.Spec.Containers[1].Args = []string{"new"}
		r.submit(p)
		r.pass(time.Second)
		after := r.runs(uid, "a", "b")
		if after["a"] != before["a"] {
			r.Errorf("a was touched: %#v, was %#v", after["a"], before["a"])
		}
		if b := after["b"]; b.Attempt != 1 || changes(b.Revision) != 2 {
			r.Errorf("b is attempt %d at revision %d", b.Attempt, b.Revision)
		}
		for _, c := range r.fake.Calls() {
			if c.Container == "a" || c.Op == runtimetest.OpStartSandbox || c.Op == runtimetest.OpCreateSandbox {
				r.Errorf("needless: %s %s", c.Op, c.Object)
			}
		}
		r.wantHistory(uid, "b", "submit/source", "start/agent", "exit/source", "restart/source", "start/agent")
		r.wantState(uid, pod.StateRunning)
	})
}

func TestEditOfNothingThatRunsRestartsNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := podOf("web", "a")
		uid := r.submit(p)
		r.pass(time.Second)
		before := r.runs(uid, "a")
		p.Labels = map[string]string{"tier": "front"}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		r.submit(p)
		r.pass(time.Minute)
		if after := r.runs(uid, "a"); after["a"] != before["a"] {
			r.Errorf("a was touched: %#v, was %#v", after["a"], before["a"])
		}
		if got := r.load(uid).Desired.Status.ObservedGeneration; got != 2 {
			r.Errorf("the status is of generation %d; want 2", got)
		}
	})
}

func TestContainersAddedAndRemoved(t *testing.T) {
	inBubble(t, func(r *rig) {
		uid := r.submit(podOf("web", "a", "b"))
		r.pass(time.Second)
		before := r.runs(uid, "a", "b")
		r.submit(podOf("web", "a", "c"))
		r.pass(time.Second)
		if after := r.runs(uid, "a", "c"); after["a"] != before["a"] {
			r.Errorf("a was touched: %#v, was %#v", after["a"], before["a"])
		}
		for _, c := range r.fake.Containers() {
			if c.Container == "b" {
				r.Errorf("%s is left", c.Name)
			}
		}
	})
}

func TestPodWideEditStopsTheOldBeforeItStartsTheNew(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := podOf("web", "a")
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		uid := r.submit(p)
		r.pass(time.Second)
		r.fake.SetScript("a", runtimetest.Script{StopTakes: 3 * time.Second})
		r.runs(uid, "a")
		p.Spec.Hostname = "other" // the port stays: the old sandbox still has it
		r.submit(p)
		r.pass(10 * time.Second)
		r.runs(uid, "a")
		if boxes := r.fake.Sandboxes(); len(boxes) != 1 || changes(boxes[0].Revision) != 2 {
			r.Errorf("sandboxes %+v", boxes)
		}
		if b := r.backoff(uid, "", pod.BackoffSandbox); b.Failures > 0 {
			r.Errorf("the new sandbox failed at first: %s", b.Message)
		}
		r.wantHistory(uid, "", "submit/source", "run/source", "recreate/source")
	})
}

func TestEditCancelsAHungPull(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := podOf("web", "a")
		p.Spec.Containers[0].Image = "example.com/slow"
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpEnsureImage, Image: "example.com/slow:latest", Hang: true})
		uid := r.submit(p)
		r.pass(time.Hour)
		if live := r.fake.Live(uid, ""); len(live) > 0 {
			r.Fatalf("live: %v", live)
		}
		p.Spec.Containers[0].Image = "busybox"
		r.submit(p)
		r.pass(time.Second)
		r.runs(uid, "a")
		pull := r.fake.Calls(runtimetest.OpEnsureImage)[0]
		if pull.Ended.IsZero() || !errors.Is(pull.Err, context.Canceled) {
			r.Errorf("the pull of the old image goes on, or ended with %v", pull.Err)
		}
		if b := r.backoff(uid, "a", pod.BackoffImage); b.Failures > 0 {
			r.Errorf("the pull that was called off counts as a failure: %+v", b)
		}
	})
}

func TestPullHoldsUpNothingElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := podOf("web", "a", "b")
		p.Spec.Containers[0].Image = "example.com/slow"
		r.fake.Images().SetRegistry("example.com/slow:latest", runtimetest.Registry{Answer: runtimetest.RegistryHas, Takes: time.Minute})
		uid := r.submit(p)
		for i := range 10 { // more pulls than runtime calls are allowed at a time
			name := fmt.Sprintf("slow-%d", i)
			slow := podOf(name, "a")
			slow.Spec.Containers[0].Image = "example.com/" + name
			r.fake.Images().SetRegistry("example.com/"+name+":latest", runtimetest.Registry{Answer: runtimetest.RegistryHas, Takes: time.Minute})
			r.submit(slow)
		}
		other := r.submit(podOf("other", "a"))
		r.pass(5 * time.Second)
		r.runs(uid, "b")
		r.runs(other, "a")
		r.pass(time.Minute)
		r.runs(uid, "a", "b")
		if e := r.events(uid, "Pulled"); len(e) != 2 || e[1].Message != `Successfully pulled image "example.com/slow" in 1m0s` {
			r.Errorf("events %+v", e)
		}
	})
}

func TestEditBetweenPlanAndRecordPlansAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := podOf("web", "a")
		uid := r.submit(p)
		r.pass(time.Second)
		p.Spec.Containers[0].Args = []string{"first"}
		r.watch.set(func(s *watchedStore) {
			s.beforeCommit = func(rec pod.Record) {
				if rec.Generation != 2 {
					r.Errorf("the first plan is for generation %d", rec.Generation)
				}
				p.Spec.Containers[0].Args = []string{"second"}
				r.submit(p)
			}
		})
		r.submit(p)
		r.pass(time.Second)
		if c := r.runs(uid, "a")["a"]; changes(c.Revision) != 3 || c.Attempt != 1 {
			r.Errorf("a is attempt %d at revision %d; want one new attempt, at revision 3", c.Attempt, c.Revision)
		}
	})
}
