package lifecycle

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// obeys has the model's containers end with code 0 when they are told to.
func (m *model) obeys() { m.stopCode = 0 }

func editPodWide(m *model) {
	m.snap.Desired.Generation++
	m.snap.Desired.Revision++
	for i := range m.snap.Desired.Containers { // as the store does
		m.snap.Desired.Containers[i].Revision++
	}
}

func TestWhatTheAgentEndedIsReplacedWhateverThePolicy(t *testing.T) {
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways} {
		for name, disturb := range map[string]func(m *model){
			"pod-wide edit":      editPodWide,
			"edit":               func(m *model) { m.snap.Desired.Generation++; m.snap.Desired.Containers[0].Revision++ },
			"the sandbox's end":  func(m *model) { m.snap.Observed.Sandboxes[0].State = pod.RunExited },
			"a half-done edit":   func(m *model) { editPodWide(m); m.end(m.byName("a", 0), 0, pod.CauseSource) },
			"a half-done repair": func(m *model) { m.end(m.byName("a", 0), 0, pod.CauseAgent) },
		} {
			t.Run(string(policy)+", "+name, func(t *testing.T) {
				m := newModel(t, policy, "a", "b")
				m.obeys()
				m.settle()
				disturb(m)
				m.settle()
				if len(m.live("a")) != 1 || len(m.live("b")) != 1 || m.snap.Desired.State != pod.StateRunning {
					t.Errorf("%s with live %+v", m.snap.Desired.State, m.live(""))
				}
			})
		}
	}
}

// A pod that has ended stops its sandbox; that is no reason to run it again.
func TestPodWhoseInitContainerFailedForGoodStaysFailed(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyNever, "init-1", "init-2", "a")
	m.exits["init-1"], m.exits["init-2"] = 0, 1
	m.settle()
	if m.snap.Desired.State != pod.StateFailed || m.snap.Observed.Sandboxes[0].State.Live() {
		t.Fatalf("%s, sandbox %s", m.snap.Desired.State, m.snap.Observed.Sandboxes[0].State)
	}
	if d := Next(m.snap, m.now); !d.Idle() {
		t.Errorf("it goes on: %v for %q", ops(d), d.Detail)
	}
	if len(m.snap.Observed.Containers) != 2 {
		t.Errorf("containers %+v", m.snap.Observed.Containers)
	}
}

func TestEndedPodRunsAgainForAnEditAndSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		edit   func(m *model)
		detail string
	}{
		"pod-wide": {editPodWide, "container a: " + specChanged},
		"a container is added": {func(m *model) {
			m.snap.Desired.Generation++
			m.snap.Desired.Containers = append(m.snap.Desired.Containers, pod.DesiredContainer{Name: "b", Kind: pod.KindContainer, Revision: 1, Attempt: -1})
		}, "container b: it was added to the manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, corev1.RestartPolicyNever, "a")
			m.exits["a"] = 0
			m.settle()
			if m.snap.Desired.State != pod.StateSucceeded {
				t.Fatal(m.snap.Desired.State)
			}
			delete(m.exits, "a")
			test.edit(m)
			d := m.step()
			if d.Event != EventRecreate || d.Cause != pod.CauseSource || d.Detail != test.detail {
				t.Errorf("%s for %s: %q", d.Event, d.Cause, d.Detail)
			}
			m.settle()
			if m.snap.Desired.State != pod.StateRunning {
				t.Errorf("it is %s", m.snap.Desired.State)
			}
		})
	}
}

// History is a path: what is stopped before its turn comes again is restarted
// once, when it is known which attempt is next.
func TestContainerStoppedBeforeItsTurnIsRestartedOnce(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "init", "a")
	m.exits["init"] = 0
	m.settle()
	m.snap.Observed.Sandboxes[0].State = pod.RunExited
	var attempts []int
	for range 20 {
		d := m.step()
		for _, a := range d.Actions {
			if a.Then != nil && a.Container == "a" {
				attempts = append(attempts, a.Then.Attempt)
			}
		}
		for _, tr := range d.Transitions {
			if tr.Event == EventRestart && tr.Container == "a" {
				attempts = append(attempts, tr.Attempt)
			}
		}
	}
	if !slices.Equal(attempts, []int{1}) {
		t.Errorf("restarted as attempts %v", attempts)
	}
}

// Edits follow each other while the first attempt still has its grace.
func TestRapidEditsCountNoAttemptThatNeverRan(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	for range 5 {
		m.snap.Desired.Generation++
		m.snap.Desired.Containers[0].Revision++
		d := Next(m.snap, m.now)
		m.record(d)
		for _, a := range d.Actions {
			switch a.Op {
			case OpStopContainer:
				if a.Cause != pod.CauseSource || a.Detail != specChanged {
					t.Errorf("it is stopped for %s: %s", a.Cause, a.Detail)
				}
			case OpRemoveContainer:
				if !a.MayRun {
					t.Error("what may run is removed without a grace")
				}
				m.do(a)
			case OpCreateContainer:
				m.do(a)
			}
		}
	}
	m.settle()
	c := m.live("a")
	if len(c) != 1 || c[0].Attempt != 1 || c[0].Revision != 6 {
		t.Errorf("live %+v", c)
	}
	for _, c := range m.snap.Observed.Containers {
		if c.State == pod.RunCreated {
			t.Errorf("attempt %d never ran and is kept", c.Attempt)
		}
	}
	if st := Status(m.snap, nil, m.now); st.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("%d restarts", st.ContainerStatuses[0].RestartCount)
	}
}

// The sandbox was started, and nobody has looked at it since.
func TestSandboxNotLookedAtCostsItsContainersNothing(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "init", "a")
	m.exits["init"] = 0
	m.settle()
	box := &m.snap.Observed.Sandboxes[0]
	box.State, box.Run = pod.RunExited, box.Run-1
	m.snap.Desired.Backoffs = []pod.Backoff{{Kind: pod.BackoffSandbox, Failures: 1, Until: m.now.Add(10 * time.Second)}}
	if d := Next(m.snap, m.now); len(d.Actions) > 0 || d.Event != "" || d.Again.IsZero() {
		t.Errorf("within its back-off: %v, %s", ops(d), d.Event)
	}
	d := Next(m.snap, m.now.Add(time.Minute))
	wantOps(t, d, "start sandbox")
	if d.Event != "" {
		t.Errorf("event %s: %s", d.Event, d.Detail)
	}
	box.State, box.Run = pod.RunRunning, box.Run+1
	d = Next(m.snap, m.now)
	if len(d.Actions) > 0 || len(d.Backoffs) != 1 || d.Backoffs[0].Failures != 0 {
		t.Errorf("once it was looked at: %v, %+v", ops(d), d.Backoffs)
	}
}

func TestConditionsHaveKubeletsReasons(t *testing.T) {
	for name, test := range map[string]struct {
		exits map[string]int
		want  map[corev1.PodConditionType]string
	}{
		"succeeded": {map[string]int{"init": 0, "a": 0}, map[corev1.PodConditionType]string{
			corev1.PodReady: "PodCompleted", corev1.ContainersReady: "PodCompleted", corev1.PodInitialized: "PodCompleted",
			corev1.PodReadyToStartContainers: "PodSandboxNotReady",
		}},
		"failed": {map[string]int{"init": 0, "a": 1}, map[corev1.PodConditionType]string{
			corev1.PodReady: "PodFailed", corev1.ContainersReady: "PodFailed", corev1.PodInitialized: "",
			corev1.PodReadyToStartContainers: "PodSandboxNotReady",
		}},
		"init failed": {map[string]int{"init": 1}, map[corev1.PodConditionType]string{
			corev1.PodReady: "PodFailed", corev1.ContainersReady: "PodFailed", corev1.PodInitialized: "ContainersNotInitialized",
		}},
		"runs": {map[string]int{"init": 0}, map[corev1.PodConditionType]string{
			corev1.PodReady: "", corev1.ContainersReady: "", corev1.PodInitialized: "", corev1.PodReadyToStartContainers: "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, corev1.RestartPolicyNever, "init", "a")
			m.exits = test.exits
			m.settle()
			for _, c := range Status(m.snap, nil, m.now).Conditions {
				if want, ok := test.want[c.Type]; ok && c.Reason != want {
					t.Errorf("%s is %s for %q; want %q", c.Type, c.Status, c.Reason, want)
				}
			}
		})
	}
}

func TestUnreadablePodIsLeftAsItIsAndCanBeDeleted(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a", "b")
	m.settle()
	m.snap.Desired.Unreadable = "spec.containers[0].new: unknown field"
	m.end(m.byName("b", 0), 1, pod.CauseExit)
	if d := Next(m.snap, m.now); !d.Idle() {
		t.Errorf("%v", ops(d))
	}
	st := Status(m.snap, nil, m.now)
	if st.Reason != ReasonUnreadable || st.Message != UnreadableRemedy(m.snap.Desired) || st.Phase != corev1.PodRunning {
		t.Errorf("status %s, %s: %s", st.Phase, st.Reason, st.Message)
	}
	m.snap.Desired.Deletion = &pod.Deletion{RequestedAt: m.now, Grace: time.Second, Cause: pod.CauseSource, Detail: "removed"}
	m.settle()
	if !m.gone {
		t.Errorf("it is %s", m.snap.Desired.State)
	}
}

// The only attempt was never started, and its sandbox is gone by now.
func TestAttemptThatIsSetAsideIsTheOnlyOne(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.step()
	m.snap.Observed.Containers[0].State, m.snap.Observed.Containers[0].StartedAt = pod.RunCreated, time.Time{}
	m.snap.Observed.Sandboxes = nil
	m.snap.Observed.Containers[0].SandboxID = "another"
	m.settle()
	if c := m.live("a"); len(c) != 1 || c[0].Attempt != 0 {
		t.Errorf("live %+v", c)
	}
}
