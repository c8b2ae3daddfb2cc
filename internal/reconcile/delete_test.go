package reconcile_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

func withVolume(p *corev1.Pod) *corev1.Pod {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	return p
}

func TestDeletionLeavesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		uid := r.submit(withVolume(podOf("web", "a", "b")))
		r.pass(time.Second)
		r.runs(uid, "a", "b")
		r.fake.ForgetCalls()
		r.withdraw("web", nil)
		r.pass(time.Second)
		r.gone(uid)
		for _, c := range r.fake.Calls(runtimetest.OpStopContainer) {
			if c.Err != nil {
				r.Errorf("stop: %v", c.Err)
			}
		}
		r.wantHistory(uid, "", "submit/source", "run/source", "delete/user", "forget/user")
		r.wantHistory(uid, "a", "submit/source", "start/agent", "exit/user")
	})
}

func TestDeletionOfAPodThatNeverStarted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpCreateSandbox, Class: pod.Internal})
		uid := r.submit(withVolume(podOf("web", "a")))
		r.pass(time.Second)
		r.withdraw("web", nil)
		r.pass(time.Second)
		r.gone(uid)
	})
}

func TestShorterGraceHastensAStopUnderWay(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.SetScript("a", runtimetest.Script{IgnoreTERM: true})
		p := podOf("web", "a")
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		uid := r.submit(p)
		r.pass(time.Second)
		begun := time.Now()
		r.withdraw("web", nil)
		r.pass(20 * time.Second)
		r.runs(uid, "a")
		r.withdraw("web", ptr.To(5*time.Second))
		r.pass(10 * time.Second)
		r.gone(uid)
		stops := r.fake.Calls(runtimetest.OpStopContainer)
		last := stops[len(stops)-1]
		if took := last.Ended.Sub(begun); took < 24*time.Second || took > 26*time.Second {
			r.Errorf("it ended after %s; want 25 s", took)
		}
	})
}

func TestNextIncarnationWaitsForTheOneBefore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.fake.SetScript("a", runtimetest.Script{StopTakes: 10 * time.Second}, runtimetest.Script{})
		p := podOf("web", "a")
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		old := r.submit(p)
		r.pass(time.Second)
		r.withdraw("web", nil)
		r.pass(time.Second)
		updated := r.submit(p)
		r.pass(5 * time.Second)
		r.runs(old, "a")
		r.runs(updated)
		r.wantState(updated, pod.StatePending)
		r.pass(10 * time.Second)
		r.gone(old)
		r.runs(updated, "a")
	})
}

func TestWhatNobodyWantsIsRemoved(t *testing.T) {
	observed(t, func(r *rig) {
		stranger := r.fake.Foreign("stranger", map[string]string{"app": "theirs"})
		orphan := pod.Identity{
			Key: pod.Key{Namespace: "default", Name: "lost"}, UID: "lost", Node: "node-1", Kind: pod.KindSandbox, Container: pod.SandboxContainerName, Revision: 1,
		}
		b, err := r.fake.CreateSandbox(r.Context(), pod.SandboxSpec{Identity: orphan})
		r.must(err)
		r.must(r.fake.StartSandbox(r.Context(), b.ID))
		wanted := r.submit(podOf("web", "a"))
		r.pass(2 * time.Second)
		r.gone("lost")
		r.runs(wanted, "a")
		if !r.fake.Runs(stranger) {
			r.Error("a container that someone else made was ended")
		}
	})
}

func TestRemovalThatFailsIsTriedAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		uid := r.submit(withVolume(podOf("web", "a")))
		r.pass(time.Second)
		r.fake.Inject(
			runtimetest.Fault{Op: runtimetest.OpRemoveSandbox, Times: 1, Class: pod.Unavailable},
			runtimetest.Fault{Op: runtimetest.OpRemoveVolumes, Times: 1, Class: pod.Internal},
		)
		r.withdraw("web", nil)
		r.pass(5 * time.Second)
		r.wantState(uid, pod.StateTerminating)
		if e := r.events(uid, "FailedKillPod"); len(e) != 1 || e[0].Type != corev1.EventTypeWarning {
			r.Errorf("events %+v", e)
		}
		r.pass(time.Minute)
		r.gone(uid)
	})
}
