package runtimetest

import (
	"context"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

// absentID is of the form that Podman's IDs have.
const absentID = "00000000000000000000000000000000000000000000000000000000deadbeef"

var noTime time.Time

var containerClauses = []clause{
	{"a container is created as it was asked for", containerIsCreated},
	{"creating a container again returns it", containerCreatedTwice},
	{"a container takes its name from an earlier one of the same attempt", containerReplaces},
	{"starting a container starts its process, once", containerStarts},
	{"a process that can't be started is invalid", containerCannotStart},
	{"a process that ends leaves its exit code", containerExits},
	{"a container that has ended is not started again", containerEndsOnce},
	{"removing a container ends it first", containerRemoved},
	{"what a container call acts on may be absent", containerAbsent},
}

func containerIsCreated(t *trial) {
	spec, b := t.running()
	want := t.containerSpec(spec, b, Script{})
	want.Kind, want.Attempt, want.Revision = pod.KindInit, 4, 9
	c, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.must(err)
	if c.ID == "" || c.Key != want.Key || c.UID != want.UID || c.Container != want.Container || c.Kind != pod.KindInit ||
		c.Attempt != 4 || c.Revision != 9 || c.Name != want.RuntimeName() || c.SandboxID != b.ID {
		t.Errorf("created %#v from %#v", c, want.Identity)
	}
	if c.Image != t.h.Image || c.ImageID != t.h.ImageID {
		t.Errorf("image %q (%s); want %q (%s)", c.Image, c.ImageID, t.h.Image, t.h.ImageID)
	}
	if c.State != pod.RunCreated || c.PID != 0 || c.CreatedAt.IsZero() || !c.StartedAt.IsZero() || !c.FinishedAt.IsZero() {
		t.Errorf("created as %#v", c)
	}
	wantContainer(t.T, t.inspect(c.ID), c)
	_, listed := t.listed(spec.UID)
	if len(listed) != 1 {
		t.Fatalf("listed %#v", listed)
	}
	wantContainer(t.T, listed[0], c)
}

// wantContainer compares what two calls said of one container. A listing knows
// whole seconds and not everything; who creates may not know where the log is,
// nor the time of creation exactly.
func wantContainer(t *testing.T, got, want pod.Container) {
	t.Helper()
	sameTime(t, "created", got.CreatedAt, want.CreatedAt)
	sameTime(t, "started", got.StartedAt, want.StartedAt)
	sameTime(t, "finished", got.FinishedAt, want.FinishedAt)
	got.CreatedAt, got.StartedAt, got.FinishedAt = want.CreatedAt, want.StartedAt, want.FinishedAt
	got.LogPath = want.LogPath
	if got != want {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func containerCreatedTwice(t *trial) {
	spec, b := t.running()
	want := t.containerSpec(spec, b, Script{})
	c, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.must(err)
	want.Hash = "bbbb" // the manifest was edited without consequence for the container
	again, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.must(err)
	if _, listed := t.listed(spec.UID); again.ID != c.ID || len(listed) != 1 {
		t.Errorf("created %s, then %s; listed %d", c.ID, again.ID, len(listed))
	}
}

func containerReplaces(t *trial) {
	spec, b := t.running()
	want := t.containerSpec(spec, b, Script{})
	old, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.must(err)
	want.Revision = 2
	c, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.must(err)
	if c.ID == old.ID || c.Revision != 2 {
		t.Errorf("created %#v over %#v", c, old)
	}
	if _, listed := t.listed(spec.UID); len(listed) != 1 {
		t.Errorf("listed %#v", listed)
	}
}

func containerStarts(t *trial) {
	_, c := t.created(Script{})
	started, err := t.h.Runtime.StartContainer(t.ctx(), c.ID)
	t.must(err)
	if started.ID != c.ID || started.State != pod.RunRunning || started.PID == 0 || started.StartedAt.IsZero() || !started.FinishedAt.IsZero() {
		t.Errorf("started %#v", started)
	}
	if !t.h.Machine.Runs(c.ID) {
		t.Error("there is no process")
	}
	again, err := t.h.Runtime.StartContainer(t.ctx(), c.ID)
	t.must(err)
	wantContainer(t.T, again, started)
	seen := t.inspect(c.ID)
	wantContainer(t.T, seen, started)
	if !again.StartedAt.Equal(started.StartedAt) || !seen.StartedAt.Equal(started.StartedAt) {
		t.Errorf("started at %s, then %s, then %s", started.StartedAt, again.StartedAt, seen.StartedAt)
	}
	if seen.LogPath == "" {
		t.Error("nobody knows where its log is")
	}
}

func containerCannotStart(t *trial) {
	_, c := t.created(Script{Broken: "no such file or directory"})
	got, err := t.h.Runtime.StartContainer(t.ctx(), c.ID)
	t.wantClass(err, pod.Invalid)
	if got.ID != c.ID || got.Attempt != c.Attempt || got.State.Live() {
		t.Errorf("came back as %#v", got)
	}
	if seen := t.inspect(c.ID); seen.State.Live() {
		t.Errorf("it is %s", seen.State)
	}
	t.must(t.h.Runtime.RemoveContainer(t.ctx(), c.ID))
}

func containerExits(t *trial) {
	r := t.record(noTime)
	_, c := t.started(Script{Lives: 200 * time.Millisecond, ExitCode: 3})
	t.await(r, pod.EventDied, c.ID)
	got := t.inspect(c.ID)
	if got.State != pod.RunExited || got.ExitCode != 3 || got.PID != 0 || got.OOMKilled {
		t.Errorf("ended as %#v", got)
	}
	if got.FinishedAt.Sub(got.StartedAt) < 100*time.Millisecond {
		t.Errorf("started %s, finished %s", got.StartedAt, got.FinishedAt)
	}
}

func containerEndsOnce(t *trial) {
	r := t.record(noTime)
	_, c := t.started(Script{Lives: 200 * time.Millisecond, ExitCode: 3})
	t.await(r, pod.EventDied, c.ID)
	again, err := t.h.Runtime.StartContainer(t.ctx(), c.ID)
	t.must(err)
	if again.State != pod.RunExited || again.ExitCode != 3 || !again.StartedAt.Equal(c.StartedAt) {
		t.Errorf("started again as %#v; was %#v", again, c)
	}
}

func containerRemoved(t *trial) {
	b, c := t.started(Script{IgnoreTERM: true})
	t.must(t.h.Runtime.RemoveContainer(t.ctx(), c.ID))
	if t.h.Machine.Runs(c.ID) {
		t.Error("its process is left")
	}
	_, err := t.h.Observer.InspectContainer(t.ctx(), c.ID)
	t.wantClass(err, pod.NotFound)
	if boxes, containers := t.listed(b.UID); len(boxes) != 1 || len(containers) != 0 {
		t.Errorf("listed %#v %#v", boxes, containers)
	}
	t.must(t.h.Runtime.RemoveContainer(t.ctx(), c.ID))
}

func containerAbsent(t *trial) {
	spec, b := t.running()
	want := t.containerSpec(spec, b, Script{})
	want.SandboxID = absentID
	_, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.wantClass(err, pod.NotFound)
	_, err = t.h.Runtime.StartContainer(t.ctx(), absentID)
	t.wantClass(err, pod.NotFound)
	_, err = t.h.Observer.InspectContainer(t.ctx(), absentID)
	t.wantClass(err, pod.NotFound)
	t.must(t.h.Runtime.RemoveContainer(t.ctx(), absentID))
	_, err = t.h.Runtime.StopContainer(t.ctx(), absentID, 0)
	t.wantClass(err, pod.NotFound)
}

var stopClauses = []clause{
	{"a container that obeys SIGTERM ends with its own exit code", stopObeyed},
	{"a container that does not is killed when the grace is over", stopIgnored},
	{"a stop that is under way can be hastened", stopHastened},
	{"stopping what does not run changes nothing", stopOfNothing},
	{"a paused container is stopped all the same", stopPaused},
	{"a caller that gives up gets its answer at once", stopGivenUp},
}

func stopObeyed(t *trial) {
	_, c := t.started(Script{StopCode: 5})
	begun := time.Now()
	got, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, patience)
	t.must(err)
	if got.ID != c.ID || got.State != pod.RunExited || got.ExitCode != 5 || got.FinishedAt.IsZero() || got.PID != 0 {
		t.Errorf("ended as %#v", got)
	}
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("it took %s", took)
	}
	again, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, patience)
	t.must(err)
	wantContainer(t.T, again, got)
}

func stopIgnored(t *trial) {
	_, c := t.started(Script{IgnoreTERM: true})
	begun := time.Now()
	got, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, time.Second)
	t.must(err)
	if took := time.Since(begun); took < 900*time.Millisecond {
		t.Errorf("it was given %s of its second", took)
	}
	if got.State != pod.RunExited || got.ExitCode != killed || got.OOMKilled {
		t.Errorf("ended as %#v", got)
	}
}

func stopHastened(t *trial) {
	_, c := t.started(Script{IgnoreTERM: true})
	slow := make(chan error, 1)
	begun := time.Now()
	go func() {
		_, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, 2*patience)
		slow <- err
	}()
	got, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, time.Second)
	t.must(err)
	if got.State != pod.RunExited || t.h.Machine.Runs(c.ID) {
		t.Errorf("ended as %#v", got)
	}
	t.must(<-slow)
	if took := time.Since(begun); took > patience {
		t.Errorf("it took %s", took)
	}
}

func stopOfNothing(t *trial) {
	_, c := t.created(Script{})
	got, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, 0)
	t.must(err)
	if got.ID != c.ID || got.State != pod.RunCreated {
		t.Errorf("it is %#v", got)
	}
}

func stopPaused(t *trial) {
	r := t.record(noTime)
	_, c := t.started(Script{StopCode: 5})
	t.h.Machine.Pause(c.ID)
	t.await(r, pod.EventPaused, c.ID)
	if got := t.inspect(c.ID); got.State != pod.RunPaused {
		t.Errorf("it is %s; want paused", got.State)
	}
	got, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, 2*time.Second)
	t.must(err)
	if got.State != pod.RunExited || t.h.Machine.Runs(c.ID) {
		t.Errorf("ended as %#v", got)
	}
}

func stopGivenUp(t *trial) {
	_, c := t.started(Script{IgnoreTERM: true})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := t.h.Runtime.StopContainer(ctx, c.ID, patience)
	t.wantClass(err, pod.Unavailable)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s to give up", took)
	}
}
