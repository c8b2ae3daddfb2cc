package runtimetest

import (
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

var sandboxClauses = []clause{
	{"a sandbox is created as it was asked for", sandboxIsCreated},
	{"creating a sandbox again returns it", sandboxCreatedTwice},
	{"labels of the pod do not change its identity", identityWins},
	{"starting a sandbox starts the infra container only", sandboxStarts},
	{"a sandbox in the host's network has no address of its own", hostNetwork},
	{"a sandbox whose infra container was stopped can be started again", sandboxRestarts},
	{"removing a sandbox ends and removes its containers", sandboxRemoved},
	{"removing a sandbox lets its containers end within the grace", sandboxRemovedGently},
	{"what a sandbox call acts on may be absent", sandboxAbsent},
	{"a sandbox takes its name from an earlier one of the same pod", sandboxReplaces},
}

func sandboxIsCreated(t *trial) {
	spec := t.spec()
	spec.Attempt, spec.Revision = 3, 7
	b := t.create(spec)
	if b.ID == "" || b.Key != spec.Key || b.UID != spec.UID || b.Attempt != 3 || b.Revision != 7 || b.Hash != spec.Hash || b.Name != spec.SandboxName() {
		t.Errorf("created %#v from %#v", b, spec.Identity)
	}
	if b.State != pod.RunCreated || b.CreatedAt.IsZero() || !b.StartedAt.IsZero() {
		t.Errorf("state %s, created %s, started %s", b.State, b.CreatedAt, b.StartedAt)
	}
	got, err := t.h.Observer.InspectSandbox(t.ctx(), b.ID)
	t.must(err)
	if got.InfraID == "" || got.InfraID == got.ID {
		t.Errorf("the infra container's ID is %q, the pod's %q", got.InfraID, got.ID)
	}
	wantSandbox(t.T, got, b)
	boxes, _ := t.listed(spec.UID)
	if len(boxes) != 1 {
		t.Fatalf("listed %#v", boxes)
	}
	wantSandbox(t.T, boxes[0], b)
}

// wantSandbox compares what two calls said of one sandbox. A listing knows whole
// seconds and no address; who creates may not know the infra container's ID yet,
// nor the time of creation exactly.
func wantSandbox(t *testing.T, got, want pod.Sandbox) {
	t.Helper()
	sameTime(t, "created", got.CreatedAt, want.CreatedAt)
	sameTime(t, "started", got.StartedAt, want.StartedAt)
	sameTime(t, "exited", got.ExitedAt, want.ExitedAt)
	if got.Key != want.Key || got.UID != want.UID || got.ID != want.ID || got.Name != want.Name || got.Attempt != want.Attempt ||
		got.Revision != want.Revision || got.Hash != want.Hash || got.State != want.State ||
		want.InfraID != "" && got.InfraID != want.InfraID {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func sameTime(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if got.IsZero() != want.IsZero() || got.Sub(want).Abs() > 2*time.Second {
		t.Errorf("%s at %s; want %s", what, got, want)
	}
}

func sandboxCreatedTwice(t *trial) {
	spec := t.spec()
	b := t.create(spec)
	again, err := t.h.Runtime.CreateSandbox(t.ctx(), spec)
	t.must(err)
	wantSandbox(t.T, again, b)
	spec.Hash = "bbbb" // the manifest was edited without consequence for the sandbox
	again, err = t.h.Runtime.CreateSandbox(t.ctx(), spec)
	t.must(err)
	if boxes, _ := t.listed(spec.UID); again.ID != b.ID || len(boxes) != 1 {
		t.Errorf("created %s, then %s; listed %d", b.ID, again.ID, len(boxes))
	}
}

func identityWins(t *trial) {
	spec := t.spec()
	spec.Labels = map[string]string{pod.LabelPodUID: "another", pod.LabelNode: "another", pod.LabelAttempt: "9", pod.LabelKind: "nonsense"}
	b := t.create(spec)
	if boxes, _ := t.listed(spec.UID); len(boxes) != 1 || boxes[0].ID != b.ID || boxes[0].Attempt != 0 {
		t.Errorf("listed %#v", boxes)
	}
}

func sandboxStarts(t *trial) {
	spec := t.spec()
	b := t.create(spec)
	c, err := t.h.Runtime.CreateContainer(t.ctx(), t.containerSpec(spec, b, Script{}))
	t.must(err)
	started := t.start(b.ID)
	if started.ID != b.ID || started.InfraID == "" || started.State != pod.RunRunning || started.StartedAt.IsZero() || len(started.IPs) == 0 {
		t.Errorf("started %#v", started)
	}
	if got := t.inspect(c.ID); got.State != pod.RunCreated {
		t.Errorf("the container is %s", got.State)
	}
	again := t.start(b.ID)
	wantSandbox(t.T, again, started)
	if !again.StartedAt.Equal(started.StartedAt) || len(again.IPs) != len(started.IPs) {
		t.Errorf("started again as %#v; was %#v", again, started)
	}
}

func hostNetwork(t *trial) {
	spec := t.spec()
	spec.HostNetwork, spec.Hostname = true, ""
	b := t.start(t.create(spec).ID)
	if b.State != pod.RunRunning || len(b.IPs) != 0 {
		t.Errorf("state %s, addresses %v", b.State, b.IPs)
	}
}

func sandboxRestarts(t *trial) {
	b, c := t.started(Script{})
	if _, err := t.h.Runtime.StopContainer(t.ctx(), b.InfraID, patience); err != nil {
		t.Fatal(err)
	}
	stopped, err := t.h.Observer.InspectSandbox(t.ctx(), b.ID)
	t.must(err)
	if stopped.State != pod.RunExited || stopped.ExitedAt.IsZero() {
		t.Errorf("after the stop: %#v", stopped)
	}
	if !t.h.Machine.Runs(c.ID) {
		t.Error("the container ended with the infra container")
	}
	again := t.start(b.ID)
	if again.State != pod.RunRunning || !again.StartedAt.After(b.StartedAt) || len(again.IPs) == 0 {
		t.Errorf("started again: %#v", again)
	}
}

func sandboxRemoved(t *trial) {
	b, c := t.started(Script{IgnoreTERM: true})
	t.must(t.h.Runtime.RemoveSandbox(t.ctx(), b.ID, 0))
	if t.h.Machine.Runs(c.ID) || t.h.Machine.Runs(b.InfraID) {
		t.Error("a process is left")
	}
	if boxes, containers := t.listed(b.UID); len(boxes)+len(containers) > 0 {
		t.Errorf("left: %#v %#v", boxes, containers)
	}
	_, err := t.h.Observer.InspectSandbox(t.ctx(), b.ID)
	t.wantClass(err, pod.NotFound)
	_, err = t.h.Observer.InspectContainer(t.ctx(), c.ID)
	t.wantClass(err, pod.NotFound)
	t.must(t.h.Runtime.RemoveSandbox(t.ctx(), b.ID, 0))
}

func sandboxRemovedGently(t *trial) {
	const needs = time.Second
	b, c := t.started(Script{StopTakes: needs})
	r := t.record(noTime)
	begun := time.Now()
	t.must(t.h.Runtime.RemoveSandbox(t.ctx(), b.ID, patience))
	t.await(r, pod.EventDied, c.ID)
	if took := time.Since(begun); took < needs || took >= patience {
		t.Errorf("the removal took %s; its container needed %s of the %s it had", took, needs, patience)
	}
	if boxes, containers := t.listed(b.UID); len(boxes)+len(containers) > 0 {
		t.Errorf("left: %#v %#v", boxes, containers)
	}
}

func sandboxAbsent(t *trial) {
	t.wantClass(t.h.Runtime.StartSandbox(t.ctx(), absentID), pod.NotFound)
	t.must(t.h.Runtime.RemoveSandbox(t.ctx(), absentID, 0))
	_, err := t.h.Observer.InspectSandbox(t.ctx(), absentID)
	t.wantClass(err, pod.NotFound)
}

func sandboxReplaces(t *trial) {
	spec := t.spec()
	old := t.create(spec)
	spec.Revision, spec.Attempt = 2, 1
	b := t.create(spec)
	if b.ID == old.ID || b.Revision != 2 || b.Attempt != 1 {
		t.Errorf("created %#v over %#v", b, old)
	}
	if boxes, _ := t.listed(spec.UID); len(boxes) != 1 {
		t.Errorf("listed %#v", boxes)
	}
}
