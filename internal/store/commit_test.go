package store

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
)

func TestCommitRecordsAStep(t *testing.T) {
	s, c, d, main := runningPod(t)
	started := metav1.NewTime(c.Now())
	r := recordFor(load(t, s, "web"))
	r.State = pod.StateRunning
	r.Status = &corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started}
	r.Transitions = []pod.Transition{{Machine: pod.MachinePod, From: "Pending", Event: "run", To: "Running", Cause: pod.CauseSource, Detail: "it runs"}}
	r.Events = []pod.Event{{Type: corev1.EventTypeNormal, Reason: "Started", Message: "Started container main", Container: "main"}}
	r.Attempts = map[string]int{"main": 2}
	r.Backoffs = []pod.Backoff{{Container: "main", Kind: pod.BackoffCrash, Failures: 2, Until: c.Now().Add(time.Minute), LastAt: c.Now(), Reason: "CrashLoopBackOff", Message: "x"}}
	r.Intents = []pod.Intent{{ContainerID: main.ID, Cause: pod.CauseSource, Detail: "replaced"}}
	told := heard(s)
	mustCommit(t, s, r)
	if n := len(told()); n != 0 {
		t.Errorf("a commit told of %d pods", n)
	}

	got := load(t, s, "web").Desired
	if got.State != pod.StateRunning || !got.StateSince.Equal(c.Now()) || got.Status.Phase != corev1.PodRunning || !got.Status.StartTime.Equal(&started) {
		t.Errorf("state %s since %s, status %+v", got.State, got.StateSince, got.Status)
	}
	if got.Containers[0].Attempt != 2 {
		t.Errorf("attempt %d", got.Containers[0].Attempt)
	}
	if len(got.Backoffs) != 1 || got.Backoffs[0] != r.Backoffs[0] {
		t.Errorf("back-offs %+v, want %+v", got.Backoffs, r.Backoffs)
	}
	if tr := query(t, s, `SELECT detail FROM transitions WHERE pod_uid = ? AND container = '' AND generation = 1`, d.UID); !slices.Equal(tr, []string{"it runs"}) {
		t.Errorf("transitions %v", tr)
	}
	if v := got.Pod.ResourceVersion; v <= d.Pod.ResourceVersion {
		t.Errorf("resource version went from %s to %s", d.Pod.ResourceVersion, v)
	}

	// The same again: events are counted, the rest is as it was.
	again := recordFor(load(t, s, "web"))
	again.State, again.Status, again.Attempts, again.Intents = r.State, r.Status, map[string]int{"main": 1}, r.Intents
	unwritten(t, s, "the same step", func() { mustCommit(t, s, again) })
	mustCommit(t, s, pod.Record{Key: r.Key, UID: r.UID, Generation: 1, Events: r.Events})
	if n := query(t, s, `SELECT count || first_seen_at || last_seen_at FROM events`); len(n) != 1 || n[0][0] != '2' {
		t.Errorf("events %v", n)
	}
	clear := recordFor(load(t, s, "web"))
	clear.Backoffs = []pod.Backoff{{Container: "main", Kind: pod.BackoffCrash}}
	mustCommit(t, s, clear)
	if b := load(t, s, "web").Desired.Backoffs; len(b) != 0 {
		t.Errorf("back-offs left: %v", b)
	}
}

func TestCommitOfAnOutdatedPlan(t *testing.T) {
	s, _, d, _ := runningPod(t)
	planned := recordFor(load(t, s, "web"))
	planned.State = pod.StateRunning
	mustSync(t, s, dirA, set(submission("web", withImage("main", "nginx"))))
	wantClass(t, s.Commit(t.Context(), planned), pod.Conflict, "default/web", "generation 2")

	planned = recordFor(load(t, s, "web"))
	planned.State = pod.StateRunning
	mustSync(t, s, dirA, set())
	wantClass(t, s.Commit(t.Context(), planned), pod.Conflict, "default/web", "deletion")
	if got := load(t, s, "web").Desired.State; got != pod.StateNone {
		t.Errorf("a refused step left state %s", got)
	}

	gone := recordFor(load(t, s, "web"))
	gone.Forget = true
	gone.Transitions = []pod.Transition{{Machine: pod.MachinePod, From: "Terminating", Event: "forget", To: "Gone"}}
	mustCommit(t, s, gone)
	wantClass(t, s.Commit(t.Context(), gone), pod.NotFound, "default/web")
	_, err := s.Load(t.Context(), d.UID)
	wantClass(t, err, pod.NotFound)
	for _, table := range []string{"desired_pods", "desired_containers", "observed_sandboxes", "observed_containers", "backoffs", "intents"} {
		if n := query(t, s, `SELECT count(*) FROM `+table); n[0] != "0" {
			t.Errorf("%s still has %s rows", table, n[0])
		}
	}
	if state := query(t, s, `SELECT state FROM why WHERE container = ''`); !slices.Equal(state, []string{"Gone"}) {
		t.Errorf("why says %v", state)
	}
	// What was being asked of the runtime when it went comes too late.
	unwritten(t, s, "a late fact about a forgotten pod", func() {
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{containerOf(d, "main", 0, time.Now())}, Sandboxes: []pod.Sandbox{sandboxOf(d, time.Now())}})
	})
}

func TestEditDropsBackoffsOfWhatChanged(t *testing.T) {
	s, _ := newStore(t)
	with := func(image string) pod.Submission { return submission("web", withImage("side", image)) }
	mustSync(t, s, dirA, set(with("nignx")))
	r := recordFor(load(t, s, "web"))
	r.Backoffs = []pod.Backoff{
		{Container: "side", Kind: pod.BackoffImage, Failures: 3}, {Container: "main", Kind: pod.BackoffCrash, Failures: 1}, {Kind: pod.BackoffSandbox, Failures: 1},
	}
	mustCommit(t, s, r)
	mustSync(t, s, dirA, set(with("nginx")))
	left := load(t, s, "web").Desired.Backoffs
	if len(left) != 2 || left[0].Kind != pod.BackoffSandbox || left[1].Container != "main" {
		t.Errorf("back-offs left: %+v", left)
	}
}

func TestLoadDecodesAGenerationOnce(t *testing.T) {
	s, _, _, _ := runningPod(t)
	first, second := load(t, s, "web").Desired.Pod, load(t, s, "web").Desired.Pod
	if &first.Spec.Containers[0] != &second.Spec.Containers[0] {
		t.Error("one generation was decoded twice")
	}
	mustSync(t, s, dirA, set(submission("web", withImage("main", "nginx"))))
	if got := load(t, s, "web").Desired.Pod; got.Spec.Containers[0].Image != "nginx" || got.Generation != 2 {
		t.Errorf("after an edit: %+v", got.ObjectMeta)
	}
}
