package lifecycle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"podstead.io/podstead/internal/pod"
)

func ops(d Decision) []string {
	var out []string
	for _, a := range d.Actions {
		s := string(a.Op)
		if a.Container != "" {
			s += " " + a.Container
		}
		out = append(out, s)
	}
	return out
}

func wantOps(t *testing.T, d Decision, want ...string) {
	t.Helper()
	if got := ops(d); !slices.Equal(got, want) {
		t.Fatalf("actions:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestNewPodStartsInfraWhileContainersAreCreated(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a", "b")
	d := Next(m.snap, m.now)
	wantOps(t, d, "create sandbox", "start sandbox", "prepare volumes",
		"ensure image a", "create container a", "start container a",
		"ensure image b", "create container b", "start container b")
	if got := d.Actions[4].After; !slices.Equal(got, []int{0, 3, 2}) {
		t.Errorf("creating a waits for %v; want the sandbox's creation, its image and the volumes only", got)
	}
	if got := d.Actions[5].After; !slices.Equal(got, []int{4, 1}) {
		t.Errorf("starting a waits for %v; want its creation and the sandbox's start", got)
	}
	m.settle()
	if m.snap.Desired.State != pod.StateRunning || len(m.live("")) != 2 {
		t.Fatalf("state %s with %d live containers", m.snap.Desired.State, len(m.live("")))
	}
}

func TestRunningPodNeedsNothing(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "init", "a")
	m.exits["init"] = 0
	m.settle()
	if d := Next(m.snap, m.now.Add(time.Hour)); !d.Idle() || !d.Again.IsZero() {
		t.Fatalf("not idle: %+v", d)
	}
}

func TestInitContainersRunInOrderBeforeTheRest(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "init-1", "init-2", "a")
	m.exits["init-1"], m.exits["init-2"] = 0, 0
	m.settle()
	var order []string
	list := slices.Clone(m.snap.Observed.Containers)
	slices.SortFunc(list, func(a, b pod.Container) int { return a.StartedAt.Compare(b.StartedAt) })
	for _, c := range list {
		order = append(order, c.Container)
	}
	if !slices.Equal(order, []string{"init-1", "init-2", "a"}) {
		t.Fatalf("started %v", order)
	}
}

func TestEditReplacesOnlyTheChangedContainer(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a", "b")
	m.settle()
	a := m.live("a")[0]
	m.snap.Desired.Generation++
	m.snap.Desired.Containers[1].Revision++
	d := Next(m.snap, m.now)
	wantOps(t, d, "stop container b", "prepare volumes", "ensure image b", "create container b", "start container b")
	if got := d.Actions[4].After; !slices.Contains(got, 0) {
		t.Errorf("the new b does not wait for the old to stop: %v", got)
	}
	if len(d.Intents) != 1 || d.Intents[0].Cause != pod.CauseSource {
		t.Errorf("intents %+v; want the stop of b for the source", d.Intents)
	}
	m.settle()
	if got := m.live("a"); len(got) != 1 || got[0].ID != a.ID {
		t.Errorf("a was touched: %+v", got)
	}
	if got := m.live("b"); len(got) != 1 || got[0].Revision != 2 || got[0].Attempt != 1 {
		t.Errorf("b was not replaced: %+v", got)
	}
}

func TestRemovedContainerIsStoppedAndAddedOneStarted(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a", "b")
	m.settle()
	m.snap.Desired.Generation++
	m.snap.Desired.Containers[1] = pod.DesiredContainer{Name: "c", Kind: pod.KindContainer, Revision: 1, Attempt: -1}
	m.settle()
	if len(m.live("a")) != 1 || len(m.live("b")) != 0 || len(m.live("c")) != 1 {
		t.Fatalf("live: %+v", m.live(""))
	}
}

func TestPodWideEditStopsTheOldThenStartsTheNew(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.snap.Desired.Generation++
	m.snap.Desired.Revision++
	m.snap.Desired.Containers[0].Revision++
	d := m.step()
	wantOps(t, d, "stop container a", "remove sandbox", "create sandbox", "start sandbox",
		"prepare volumes", "ensure image a", "create container a", "start container a")
	if d.Event != EventRecreate || d.Cause != pod.CauseSource {
		t.Errorf("event %q cause %q", d.Event, d.Cause)
	}
	m.settle()
	if m.snap.Desired.State != pod.StateRunning || len(m.snap.Observed.Sandboxes) != 1 {
		t.Fatalf("state %s, sandboxes %+v", m.snap.Desired.State, m.snap.Observed.Sandboxes)
	}
}

func TestRestartPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy  corev1.RestartPolicy
		code    int
		want    pod.State
		restart bool
	}{
		{corev1.RestartPolicyNever, 0, pod.StateSucceeded, false},
		{corev1.RestartPolicyNever, 3, pod.StateFailed, false},
		{corev1.RestartPolicyOnFailure, 0, pod.StateSucceeded, false},
		{corev1.RestartPolicyOnFailure, 3, pod.StateRunning, true},
		{corev1.RestartPolicyAlways, 0, pod.StateRunning, true},
		{corev1.RestartPolicyAlways, 3, pod.StateRunning, true},
	} {
		t.Run(string(tc.policy)+"/"+string(rune('0'+tc.code)), func(t *testing.T) {
			m := newModel(t, tc.policy, "a")
			m.step()
			m.step()
			m.end(0, tc.code, pod.CauseExit)
			m.settle()
			if m.snap.Desired.State != tc.want {
				t.Errorf("state %s, want %s", m.snap.Desired.State, tc.want)
			}
			if restarted := len(m.live("a")) == 1; restarted != tc.restart {
				t.Errorf("restarted %v, want %v", restarted, tc.restart)
			}
			if !tc.restart && m.snap.Observed.Sandboxes[0].State.Live() {
				t.Error("the sandbox of an ended pod keeps its address")
			}
		})
	}
}

func TestFailedInitContainerFailsAPodThatNeverRestarts(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyNever, "init", "a")
	m.exits["init"] = 1
	m.settle()
	if m.snap.Desired.State != pod.StateFailed || m.snap.Desired.Containers[1].Attempt > 0 || len(m.live("")) > 0 {
		t.Fatalf("state %s, live %+v", m.snap.Desired.State, m.live(""))
	}
}

// TestCrashLoopDoublesItsDelay guards against moby#22283.
func TestCrashLoopDoublesItsDelay(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.exits["a"] = 1
	var waits []time.Duration
	for len(waits) < 8 {
		d := m.step()
		if !d.Again.IsZero() && d.Again.After(m.now) && len(d.Actions) == 0 {
			waits = append(waits, d.Again.Sub(FindBackoff(m.snap.Desired.Backoffs, "a", pod.BackoffCrash).LastAt))
			m.now = d.Again
		}
	}
	want := []time.Duration{10, 20, 40, 80, 160, 300, 300, 300}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(waits, want) {
		t.Fatalf("waited %v, want %v", waits, want)
	}
}

// TestHealthResetsTheBackoff guards against moby#22283.
func TestHealthResetsTheBackoff(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.snap.Desired.Backoffs = []pod.Backoff{{Container: "a", Kind: pod.BackoffCrash, Failures: 9, LastAt: m.now, Until: m.now}}
	m.now = m.now.Add(BackoffHealthy + time.Second)
	m.end(0, 1, pod.CauseExit)
	d := Next(m.snap, m.now)
	if len(d.Backoffs) != 1 || d.Backoffs[0].Failures != 1 || len(d.Actions) == 0 {
		t.Fatalf("decision %+v; want an immediate restart counted as the first failure", d)
	}
}

// Who ended a run that was well for long enough does not matter.
func TestHealthResetsTheBackoffOfARunThatWasEnded(t *testing.T) {
	for name, end := range map[string]func(m *model){
		"by the agent, later":   func(m *model) { m.snap.Observed.Sandboxes[0].State = pod.RunExited },
		"by the agent, already": func(m *model) { m.end(0, 137, pod.CauseAgent) },
		"by a person":           func(m *model) { m.end(0, 137, pod.CauseUser) },
		"with the machine":      func(m *model) { m.end(0, 137, pod.CauseReboot) },
	} {
		for well, left := range map[time.Duration]int{BackoffHealthy - time.Second: 9, BackoffHealthy + time.Second: 0} {
			t.Run(name+" after "+well.String(), func(t *testing.T) {
				m := newModel(t, corev1.RestartPolicyAlways, "a")
				m.settle()
				m.now = m.snap.Observed.Containers[0].StartedAt
				m.snap.Desired.Backoffs = []pod.Backoff{{Container: "a", Kind: pod.BackoffCrash, Failures: 9, LastAt: m.now, Until: m.now}}
				m.now = m.now.Add(well)
				end(m)
				m.settle()
				if got := FindBackoff(m.snap.Desired.Backoffs, "a", pod.BackoffCrash).Failures; got != left {
					t.Errorf("%d failures are remembered, want %d", got, left)
				}
			})
		}
	}
}

func TestRebootStartsAgainWithoutBackoff(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.end(0, 137, pod.CauseReboot)
	m.snap.Observed.Sandboxes[0].State = pod.RunExited
	d := m.step()
	if len(d.Backoffs) != 0 || d.Event != EventRecreate || d.Cause != pod.CauseReboot {
		t.Fatalf("decision %+v", d)
	}
	m.settle()
	if got := m.live("a"); len(got) != 1 || got[0].Attempt != 1 {
		t.Fatalf("live %+v", got)
	}
}

func TestSandboxThatDiedTakesItsContainersAlong(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "init", "a", "b")
	m.exits["init"] = 0
	m.settle()
	m.snap.Observed.Sandboxes[0].State = pod.RunExited
	m.settle()
	for _, n := range []string{"a", "b"} {
		if got := m.live(n); len(got) != 1 || got[0].Attempt != 1 {
			t.Errorf("%s: %+v; want a second attempt in the new network", n, got)
		}
	}
	if got := m.snap.Observed.Containers[m.byName("init", 1)]; got.State != pod.RunExited {
		t.Errorf("the init container did not run again: %+v", got)
	}
}

func TestSandboxThatCannotBeStartedIsMadeAnew(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	m.end(0, 137, pod.CauseExit)
	m.snap.Observed.Sandboxes[0].State = pod.RunExited
	m.snap.Desired.Backoffs = []pod.Backoff{{Kind: pod.BackoffSandbox, Failures: 1, LastAt: m.now, Until: m.now}}
	d := m.step()
	if got := ops(d); !slices.Contains(got, "remove sandbox") || !slices.Contains(got, "create sandbox") {
		t.Fatalf("actions %v", got)
	}
}

func TestDeletionStopsThenRemovesThenForgets(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a", "b")
	m.settle()
	m.snap.Desired.Deletion = &pod.Deletion{RequestedAt: m.now, Grace: 30 * time.Second, Cause: pod.CauseSource, Detail: "web.yaml was removed"}
	d := Next(m.snap, m.now.Add(10*time.Second))
	wantOps(t, d, "stop container a", "stop container b", "remove sandbox", "remove volumes", "forget")
	if got := d.Actions[0].Grace; got != 20*time.Second {
		t.Errorf("grace left %s, want 20s", got)
	}
	if d := Next(m.snap, m.now.Add(time.Hour)); d.Actions[0].Grace != minimumGrace {
		t.Errorf("grace after the deadline %s, want %s", d.Actions[0].Grace, minimumGrace)
	}
	m.settle()
	if !m.gone {
		t.Fatal("not forgotten")
	}
}

func TestSuccessorWaitsForItsPredecessor(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.snap.Predecessor = "old"
	m.settle()
	if len(m.snap.Observed.Sandboxes) != 0 || m.snap.Desired.State != pod.StatePending {
		t.Fatalf("started beside its predecessor: %+v", m.snap.Observed)
	}
	m.snap.Predecessor = ""
	m.settle()
	if len(m.live("a")) != 1 {
		t.Fatal("not started once its predecessor was gone")
	}
}

func TestPreviousAttemptIsKeptAndOlderOnesRemoved(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	for range 3 {
		m.end(m.byID(m.live("a")[0].ID), 1, pod.CauseExit)
		m.settle()
	}
	var attempts []int
	for _, c := range m.snap.Observed.Containers {
		attempts = append(attempts, c.Attempt)
	}
	slices.Sort(attempts)
	if !slices.Equal(attempts, []int{2, 3}) {
		t.Fatalf("attempts kept: %v, want [2 3]", attempts)
	}
}

func TestImageBackoffHoldsOnlyItsContainer(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a", "b")
	m.snap.Desired.Backoffs = []pod.Backoff{{Container: "a", Kind: pod.BackoffImage, Failures: 1, LastAt: m.now, Until: m.now.Add(10 * time.Second)}}
	d := m.step()
	if got := ops(d); slices.Contains(got, "ensure image a") || !slices.Contains(got, "start container b") {
		t.Fatalf("actions %v", got)
	}
	if want := m.snap.Desired.Backoffs[0].Until; !d.Again.Equal(want) {
		t.Errorf("looks again at %v, want %v", d.Again, want)
	}
}

func TestDiscardRemovesWhatNobodyWants(t *testing.T) {
	m := newModel(t, corev1.RestartPolicyAlways, "a")
	m.settle()
	wantOps(t, Discard(m.snap.Observed, "no source wants it", m.now), "stop container a", "remove sandbox", "remove volumes")
}

// TestAnyDisturbanceConverges disturbs a pod at random and checks that it comes
// back to what is desired, one live attempt a container, by legal steps alone.
func TestAnyDisturbanceConverges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.SampledFrom([]corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}).Draw(rt, "policy")
		names := []string{"a", "b"}
		if rapid.Bool().Draw(rt, "init") {
			names = append([]string{"init-1", "init-2"}, names...)
		}
		m := newModel(rtb{t, rt}, policy, names...)
		m.exits["init-1"], m.exits["init-2"] = 0, 0
		for range rapid.IntRange(1, 12).Draw(rt, "disturbances") {
			if rapid.Bool().Draw(rt, "settle first") {
				m.settle()
			}
			m.disturb(rt)
		}
		m.settle()
		m.check(policy)
		m.snap.Desired.Deletion = &pod.Deletion{RequestedAt: m.now, Grace: time.Second, Cause: pod.CauseUser}
		m.settle()
		if !m.gone {
			rt.Fatal("not forgotten after its deletion")
		}
	})
}

// rtb fails the rapid test, so that it shrinks.
type rtb struct {
	testing.TB
	rt *rapid.T
}

func (r rtb) Fatalf(format string, args ...any) { r.rt.Fatalf(format, args...) }
func (r rtb) Helper()                           {}

func (m *model) disturb(rt *rapid.T) {
	o := &m.snap.Observed
	switch rapid.IntRange(0, 7).Draw(rt, "what") {
	case 0: // a process ends
		if live := m.live(""); len(live) > 0 {
			c := live[rapid.IntRange(0, len(live)-1).Draw(rt, "which")]
			m.end(m.byID(c.ID), rapid.IntRange(0, 1).Draw(rt, "code"), pod.CauseExit)
		}
	case 1: // a container is removed by hand
		if n := len(o.Containers); n > 0 {
			m.observe(rapid.IntRange(0, n-1).Draw(rt, "which"), nil)
		}
	case 2: // the sandbox dies
		if len(o.Sandboxes) > 0 {
			o.Sandboxes[0].State = pod.RunExited
		}
	case 3: // the Podman pod is removed by hand
		if len(o.Sandboxes) > 0 {
			m.removeSandbox(0, pod.CauseUser)
		}
	case 4: // one container is edited
		i := rapid.IntRange(0, len(m.snap.Desired.Containers)-1).Draw(rt, "which")
		if m.snap.Desired.Containers[i].Kind == pod.KindContainer {
			m.snap.Desired.Generation++
			m.snap.Desired.Containers[i].Revision++
		}
	case 5: // the whole pod is edited
		m.snap.Desired.Generation++
		m.snap.Desired.Revision++
		for i := range m.snap.Desired.Containers {
			m.snap.Desired.Containers[i].Revision++
		}
	case 6: // the machine restarts
		for i := range o.Containers {
			m.end(i, 137, pod.CauseReboot)
		}
		for i := range o.Sandboxes {
			o.Sandboxes[i].State = pod.RunExited
		}
	case 7: // a plan is cut short
		d := Next(m.snap, m.now)
		if n := len(d.Actions); n > 0 && !slices.ContainsFunc(d.Actions, func(a Action) bool { return a.Op == OpForget }) {
			m.cutShort(d, rapid.IntRange(0, n-1).Draw(rt, "after"))
		}
	}
}

// cutShort records a decision and takes only the first n actions in order, as
// an agent does that is killed in the middle.
func (m *model) cutShort(d Decision, n int) {
	if d.Event != "" {
		m.snap.Desired.State, _ = FirePod(m.snap.Desired.State, d.Event)
	}
	for name, a := range d.Attempts {
		i := slices.IndexFunc(m.snap.Desired.Containers, func(c pod.DesiredContainer) bool { return c.Name == name })
		m.snap.Desired.Containers[i].Attempt = a
	}
	done := map[int]bool{}
	for i, a := range d.Actions {
		if len(done) == n {
			return
		}
		if !slices.ContainsFunc(a.After, func(j int) bool { return !done[j] }) {
			m.do(a)
			done[i] = true
		}
	}
}

func (m *model) check(policy corev1.RestartPolicy) {
	m.t.Helper()
	for _, dc := range m.snap.Desired.Containers {
		live := m.live(dc.Name)
		switch {
		case len(live) > 1:
			m.t.Fatalf("%d live attempts of %s", len(live), dc.Name)
		case dc.Kind == pod.KindInit && len(live) > 0:
			m.t.Fatalf("init container %s still runs", dc.Name)
		case len(live) == 1 && live[0].Revision != dc.Revision:
			m.t.Fatalf("%s runs revision %d, want %d", dc.Name, live[0].Revision, dc.Revision)
		case policy == corev1.RestartPolicyAlways && dc.Kind == pod.KindContainer && len(live) == 0:
			m.t.Fatalf("%s does not run", dc.Name)
		}
	}
	if policy == corev1.RestartPolicyAlways && m.snap.Desired.State != pod.StateRunning {
		m.t.Fatalf("state %s", m.snap.Desired.State)
	}
	ended := m.snap.Desired.State == pod.StateSucceeded || m.snap.Desired.State == pod.StateFailed
	if live := len(m.live("")) > 0; live == ended {
		m.t.Fatalf("state %s with live containers: %v", m.snap.Desired.State, live)
	}
}

func TestDiagramsAreCurrent(t *testing.T) {
	for _, machine := range []pod.Machine{pod.MachinePod, pod.MachineContainer} {
		got, err := os.ReadFile(filepath.Join("..", "..", "schema", "states-"+string(machine)+".mmd"))
		if err != nil {
			t.Fatalf("%v; run scripts/generate", err)
		}
		if string(got) != Diagram(machine) {
			t.Errorf("schema/states-%s.mmd is not what the table says; run scripts/generate", machine)
		}
	}
}

func TestIllegalEventIsRefused(t *testing.T) {
	if _, err := FirePod(pod.StateSucceeded, EventRun); err == nil {
		t.Error("run was allowed from Succeeded")
	}
	if to, err := FirePod(pod.StateRunning, EventRecreate); err != nil || to != pod.StateRunning {
		t.Errorf("recreate from Running: %s, %v", to, err)
	}
}
