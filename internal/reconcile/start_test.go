package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// changing are the calls that change something and count against Parallel.
var changing = []runtimetest.Op{
	runtimetest.OpCreateSandbox, runtimetest.OpStartSandbox, runtimetest.OpRemoveSandbox,
	runtimetest.OpCreateContainer, runtimetest.OpStartContainer, runtimetest.OpRemoveContainer,
	runtimetest.OpEnsureVolumes, runtimetest.OpRemoveVolumes,
}

// reading are the calls that only ask.
var reading = []runtimetest.Op{
	runtimetest.OpList, runtimetest.OpInspectSandbox, runtimetest.OpInspectContainer, runtimetest.OpListImages, runtimetest.OpEvents,
}

func TestInfraStartsWhileContainersAreCreated(t *testing.T) {
	inBubble(t, func(r *rig) {
		begun := time.Now()
		uid := r.submit(podOf("web", "a", "b"))
		r.pass(time.Second)
		r.runs(uid, "a", "b")
		infra := r.fake.Calls(runtimetest.OpStartSandbox)
		created := r.fake.Calls(runtimetest.OpCreateContainer)
		started := r.fake.Calls(runtimetest.OpStartContainer)
		if len(infra) != 1 || len(created) != 2 || len(started) != 2 {
			r.Fatalf("%d starts of infra, %d creations, %d starts", len(infra), len(created), len(started))
		}
		for _, c := range created {
			if !c.Begun.Equal(infra[0].Begun) {
				r.Errorf("%s was created from %s on, infra started from %s on", c.Container, c.Begun, infra[0].Begun)
			}
		}
		for _, s := range started {
			if !s.Begun.Equal(infra[0].Ended) {
				r.Errorf("%s was started at %s; infra ran at %s", s.Container, s.Begun, infra[0].Ended)
			}
		}
		l := runtimetest.PodmanLatency
		fastest := l[runtimetest.OpCreateSandbox] + l[runtimetest.OpStartSandbox] + l[runtimetest.OpStartContainer]
		if took := started[1].Ended.Sub(begun); took != fastest {
			r.Errorf("it took %s; the calls in the best order take %s", took, fastest)
		}
	})
}

func TestStartNeedsNoEvent(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Mute(true)
		uid := r.submit(podOf("web", "a"))
		r.pass(time.Second)
		r.runs(uid, "a")
		r.wantState(uid, pod.StateRunning)
		r.wantHistory(uid, "a", "submit/source", "start/agent")
		r.wantHistory(uid, "", "submit/source", "run/source")
		st := r.load(uid).Desired.Status
		if st.Phase != corev1.PodRunning || !r.status(uid, "a").Ready || st.PodIP == "" || st.HostIP != "192.0.2.1" {
			r.Errorf("status %+v", st)
		}
		if asked := r.fake.Calls(reading...); len(asked) != 1 || asked[0].Op != runtimetest.OpInspectSandbox {
			r.Errorf("the runtime was asked %v; want the sandbox's addresses alone", asked)
		}
	})
}

func TestContainersAreMadeOfNormalisedImages(t *testing.T) {
	inBubble(t, func(r *rig) {
		uid := r.submit(podOf("web", "a"))
		r.pass(time.Second)
		if got := r.runs(uid, "a")["a"].Image; got != busybox {
			r.Errorf("made of %q; want %q", got, busybox)
		}
	})
}

func TestInitContainersComeFirst(t *testing.T) {
	observed(t, func(r *rig) {
		r.fake.SetScript("init-1", runtimetest.Script{Lives: 2 * time.Second})
		r.fake.SetScript("init-2", runtimetest.Script{Lives: 2 * time.Second})
		uid := r.submit(podOf("web", "init-1", "init-2", "a"))
		r.pass(time.Second)
		r.runs(uid, "init-1")
		r.pass(2 * time.Second)
		r.runs(uid, "init-2")
		r.wantState(uid, pod.StatePending)
		r.pass(2 * time.Second)
		r.runs(uid, "a")
		r.wantState(uid, pod.StateRunning)
	})
}

// TestThirtyPodsAtOnce guards against podman#29721, 25886.
func TestThirtyPodsAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		var uids []types.UID
		for i := range 30 {
			uids = append(uids, r.submit(podOf(fmt.Sprintf("web-%d", i), "a")))
		}
		r.pass(10 * time.Second)
		for _, uid := range uids {
			r.runs(uid, "a")
		}
		if most := r.fake.Parallel(changing...); most != 8 {
			r.Errorf("%d calls at a time; want 8", most)
		}
	})
}

// TestHungCallHoldsUpNobodyElse guards against nomad-driver-podman#229.
func TestHungCallHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpStartContainer, Pod: "stuck", Times: 1, Hang: true})
		stuck := r.submit(podOf("stuck", "a"))
		r.pass(time.Second)
		other := r.submit(podOf("web", "a"))
		r.pass(time.Second)
		r.runs(other, "a")
		if live := r.fake.Live(stuck, ""); len(live) > 0 {
			r.Fatalf("the hung start started %v", live)
		}
		r.pass(3 * time.Minute) // the call's deadline and the back-off
		r.runs(stuck, "a")
		if n := len(r.fake.Calls(runtimetest.OpCreateContainer)); n != 2 {
			r.Errorf("%d containers were created; want one a pod", n)
		}
	})
}
