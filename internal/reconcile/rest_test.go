package reconcile_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// onDisk tells one content of the database from another.
func (r *rig) onDisk() string {
	r.Helper()
	h := sha256.New()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(r.path + suffix)
		r.must(err)
		fmt.Fprintf(h, "%d ", len(data))
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestNothingHappensAtRest guards against k3s#11313, microk8s#3064.
func TestNothingHappensAtRest(t *testing.T) {
	observed(t, func(r *rig) {
		var uids []types.UID
		for i := range 5 {
			uids = append(uids, r.submit(podOf(fmt.Sprintf("web-%d", i), "a", "b")))
		}
		once := podOf("once", "c")
		once.Spec.RestartPolicy = "Never"
		r.fake.SetScript("c", runtimetest.Script{Lives: time.Second})
		r.submit(once)
		r.pass(time.Minute)
		before := r.onDisk()
		r.fake.ForgetCalls()
		r.watch.counts()
		for range 6 * 60 {
			r.must(r.loop.Resync(r.Context())) // as the agent does every minute
			r.pass(time.Minute)
		}
		for _, uid := range uids {
			r.runs(uid, "a", "b")
		}
		if _, writes := r.watch.counts(); writes > 0 {
			r.Errorf("the loop wrote %d times", writes)
		}
		if r.onDisk() != before {
			r.Error("the database changed")
		}
		lists := len(r.fake.Calls(runtimetest.OpList))
		if all := len(r.fake.Calls()); all != 2*lists || lists > 361 {
			r.Errorf("%d calls, %d of them listings; want one of containers and one of images a minute", all, lists)
		}
	})
}

func TestWithoutWakeUpsNothingIsLoaded(t *testing.T) {
	inBubble(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(time.Minute)
		r.watch.counts()
		r.fake.ForgetCalls()
		r.pass(24 * time.Hour)
		r.runs(uid, "a")
		if loads, writes := r.watch.counts(); loads+writes > 0 {
			r.Errorf("%d loads and %d writes in a day", loads, writes)
		}
		if n := len(r.fake.Calls()); n > 0 {
			r.Errorf("%d calls in a day", n)
		}
	})
}

func TestWakeUpsCoalesce(t *testing.T) {
	inBubble(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(time.Minute)
		r.watch.counts()
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpCreateContainer, Delay: time.Minute})
		r.fake.KillProcess(r.runs(uid, "a")["a"].ID)
		c := r.fake.Containers()[0]
		r.must(r.store.Observe(r.Context(), pod.Facts{Containers: []pod.Container{c}}))
		r.pass(time.Second)
		r.watch.counts()
		for range 1000 {
			r.loop.Wake(uid, uid)
		}
		synctest.Wait()
		if loads, _ := r.watch.counts(); loads > 10 {
			r.Errorf("2000 wake-ups during a call led to %d loads", loads)
		}
		r.pass(2 * time.Minute)
		r.runs(uid, "a")
		r.watch.counts()
		r.fake.ForgetCalls()
		for range 1000 {
			r.loop.Wake(uid)
		}
		synctest.Wait()
		if loads, writes := r.watch.counts(); loads > 20 || writes > 0 {
			r.Errorf("1000 wake-ups at rest led to %d loads and %d writes", loads, writes)
		}
		if n := len(r.fake.Calls()); n > 0 {
			r.Errorf("%d calls", n)
		}
	})
}

func TestStoppingTheAgentLeavesContainersRunning(t *testing.T) {
	observed(t, func(r *rig) {
		running := r.submit(podOf("running", "a"))
		r.fake.SetScript("slow", runtimetest.Script{IgnoreTERM: true})
		stopping := r.submit(podOf("stopping", "slow"))
		r.pass(2 * time.Second)
		before := r.runs(running, "a")
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpCreateContainer, Pod: "hung", Hang: true})
		hung := r.submit(podOf("hung", "b"))
		r.withdraw("stopping", nil)
		r.pass(2 * time.Second)
		begun := time.Now()
		r.stop()
		if took := time.Since(begun); took > 100*time.Millisecond {
			r.Errorf("it took %s to stop", took)
		}
		r.runs(running, "a")
		r.runs(stopping, "slow")

		r.fake.ClearFaults()
		r.fake.ForgetCalls()
		r.pass(time.Second)
		r.start()
		r.pass(40 * time.Second)
		if after := r.runs(running, "a"); after["a"] != before["a"] {
			r.Errorf("it was restarted: %#v, was %#v", after["a"], before["a"])
		}
		r.runs(hung, "b")
		r.gone(stopping)
		for _, c := range r.fake.Calls(changing...) {
			if c.Pod == "running" {
				r.Errorf("needless: %s %s", c.Op, c.Object)
			}
		}
	})
}
