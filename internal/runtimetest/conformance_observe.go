package runtimetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
)

var observeClauses = []clause{
	{"events tell of everything that the runtime does", eventsOfCalls},
	{"events since a time are told again", eventsSince},
	{"the end of the context ends the stream", eventsEnd},
	{"a process killed from outside is reported", killedOutside},
	{"a container stopped by hand is reported", stoppedByHand},
	{"a container removed by hand is reported", removedByHand},
	{"the end of an infra container is reported and its pod runs on", infraKilled},
	{"images are listed by their full names", imagesListed},
}

func eventsOfCalls(t *trial) {
	r := t.record(noTime)
	b, c := t.started(Script{})
	_, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, 0)
	t.must(err)
	t.must(t.h.Runtime.RemoveContainer(t.ctx(), c.ID))
	t.must(t.h.Runtime.RemoveSandbox(t.ctx(), b.ID, 0))
	for _, kind := range []pod.EventKind{pod.EventCreated, pod.EventStarted, pod.EventDied, pod.EventRemoved} {
		if e := t.await(r, kind, c.ID); e.At.IsZero() || e.SandboxID != "" {
			t.Errorf("event %#v", e)
		}
	}
	t.await(r, pod.EventStarted, b.InfraID)
	t.awaitEvent(r, "the pod was removed", func(e pod.RuntimeEvent) bool { return e.Kind == pod.EventRemoved && e.SandboxID == b.ID })
}

func eventsSince(t *trial) {
	before := time.Now()
	_, c := t.started(Script{})
	r := t.record(before)
	t.await(r, pod.EventStarted, c.ID)
	t.must(t.h.Runtime.RemoveContainer(t.ctx(), c.ID))
	t.await(r, pod.EventRemoved, c.ID)
}

func eventsEnd(t *trial) {
	r := t.record(noTime)
	begun := time.Now()
	_ = t.end(r)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func killedOutside(t *trial) {
	r := t.record(noTime)
	_, c := t.started(Script{})
	t.h.Machine.KillProcess(c.ID)
	t.await(r, pod.EventDied, c.ID)
	if got := t.inspect(c.ID); got.State != pod.RunExited || got.ExitCode != killed || got.OOMKilled || got.FinishedAt.IsZero() {
		t.Errorf("ended as %#v", got)
	}
}

func stoppedByHand(t *trial) {
	r := t.record(noTime)
	_, c := t.started(Script{StopCode: 5})
	t.h.Machine.StopByHand(c.ID)
	t.await(r, pod.EventDied, c.ID)
	t.await(r, pod.EventStopped, c.ID) // before or after that
	if got := t.inspect(c.ID); got.State != pod.RunExited || got.ExitCode != 5 {
		t.Errorf("ended as %#v", got)
	}
}

func removedByHand(t *trial) {
	r := t.record(noTime)
	_, c := t.started(Script{})
	t.h.Machine.RemoveBehind(c.ID)
	t.await(r, pod.EventRemoved, c.ID)
	_, err := t.h.Observer.InspectContainer(t.ctx(), c.ID)
	t.wantClass(err, pod.NotFound)
	_, err = t.h.Runtime.StartContainer(t.ctx(), c.ID)
	t.wantClass(err, pod.NotFound)
	t.must(t.h.Runtime.RemoveContainer(t.ctx(), c.ID))
}

func infraKilled(t *trial) {
	r := t.record(noTime)
	b, c := t.started(Script{})
	t.h.Machine.KillProcess(b.InfraID)
	t.await(r, pod.EventDied, b.InfraID)
	infra := t.inspect(b.InfraID)
	if infra.Kind != pod.KindSandbox || infra.SandboxID != b.ID || infra.State != pod.RunExited || infra.UID != b.UID {
		t.Errorf("the infra container is %#v", infra)
	}
	box, err := t.h.Observer.InspectSandbox(t.ctx(), b.ID)
	t.must(err)
	if box.State != pod.RunExited || box.ExitedAt.IsZero() || len(box.IPs) != 0 {
		t.Errorf("the sandbox is %#v", box)
	}
	if got := t.inspect(c.ID); got.State != pod.RunRunning || !t.h.Machine.Runs(c.ID) {
		t.Errorf("the container is %#v", got)
	}
	_, containers := t.listed(b.UID)
	if slices.ContainsFunc(containers, func(c pod.Container) bool { return c.Kind == pod.KindSandbox }) {
		t.Errorf("an infra container is listed as a container: %#v", containers)
	}
}

func imagesListed(t *trial) {
	images, err := t.h.Observer.ListImages(t.ctx())
	t.must(err)
	i := slices.IndexFunc(images, func(i pod.Image) bool { return slices.Contains(i.Names, t.h.Image) })
	if i < 0 {
		t.Fatalf("%s is not among %#v", t.h.Image, images)
	}
	if images[i].ID != t.h.ImageID || images[i].SizeBytes == 0 {
		t.Errorf("listed %#v; want the ID %s", images[i], t.h.ImageID)
	}
}

func outOfMemory(t *trial) {
	r := t.record(noTime)
	spec, b := t.running()
	want := t.containerSpec(spec, b, Script{Lives: 200 * time.Millisecond, OOM: true})
	want.Resources.MemoryLimit = oomLimit
	c, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.must(err)
	_, err = t.h.Runtime.StartContainer(t.ctx(), c.ID)
	t.must(err)
	t.await(r, pod.EventDied, c.ID)
	if got := t.inspect(c.ID); got.State != pod.RunExited || !got.OOMKilled || got.ExitCode != killed {
		t.Errorf("ended as %#v", got)
	}
}

var foreignClauses = []clause{
	{"nothing of anyone else is listed, inspected or told of", foreignIgnored},
	{"nothing of anyone else is stopped or removed", foreignUntouched},
	{"a name that someone else has is a conflict", foreignName},
}

// strangers runs a container without labels, one with half of them and one of
// another node's Podstead.
func (t *trial) strangers() []string {
	spec := t.spec()
	other := spec.Identity
	other.Node, other.Kind, other.Container = "another-node", pod.KindContainer, "web"
	half := map[string]string{pod.LabelNode: t.h.Node, "io.kubernetes.pod.name": "half"}
	var ids []string
	for i, labels := range []map[string]string{{"app": "theirs"}, other.Labels(), half} {
		ids = append(ids, t.foreign(fmt.Sprintf("stranger-%d-%d", t.number, i), labels))
	}
	return ids
}

func (t *trial) foreign(name string, labels map[string]string) string {
	id := t.h.Machine.Foreign(name, labels)
	t.Cleanup(func() { t.h.Machine.RemoveBehind(id) })
	return id
}

func foreignIgnored(t *trial) {
	r := t.record(noTime)
	ids := t.strangers()
	_, containers, err := t.h.Observer.List(t.ctx())
	t.must(err)
	for _, c := range containers {
		if slices.Contains(ids, c.ID) {
			t.Errorf("listed %#v", c)
		}
	}
	for _, id := range ids {
		if c, err := t.h.Observer.InspectContainer(t.ctx(), id); pod.ClassOf(err) != pod.NotFound {
			t.Errorf("inspected %#v, error %v", c, err)
		}
	}
	_, mine := t.started(Script{}) // what comes after theirs on the stream
	t.await(r, pod.EventStarted, mine.ID)
	if e, told := r.find(func(e pod.RuntimeEvent) bool { return slices.Contains(ids, e.ID) }); told {
		t.Errorf("told of %#v", e)
	}
}

func foreignUntouched(t *trial) {
	for _, id := range t.strangers() {
		_, stopped := t.h.Runtime.StopContainer(t.ctx(), id, 0)
		removed := t.h.Runtime.RemoveContainer(t.ctx(), id)
		gone := t.h.Runtime.RemoveSandbox(t.ctx(), id, 0)
		_, started := t.h.Runtime.StartContainer(t.ctx(), id)
		if !t.h.Machine.Runs(id) {
			t.Errorf("%s was ended (stop %v, remove %v, remove as a sandbox %v, start %v)", id, stopped, removed, gone, started)
		}
		t.wantClass(started, pod.NotFound)
	}
}

func foreignName(t *trial) {
	spec, b := t.running()
	want := t.containerSpec(spec, b, Script{})
	id := t.foreign(want.RuntimeName(), map[string]string{"app": "theirs"})
	_, err := t.h.Runtime.CreateContainer(t.ctx(), want)
	t.wantClass(err, pod.Conflict)

	another := t.spec()
	infra := t.foreign(another.RuntimeName(), nil)
	_, err = t.h.Runtime.CreateSandbox(t.ctx(), another)
	t.wantClass(err, pod.Conflict)
	if !t.h.Machine.Runs(id) || !t.h.Machine.Runs(infra) {
		t.Error("who had the name was ended")
	}
	if boxes, _ := t.listed(another.UID); len(boxes) != 0 {
		t.Errorf("left half-made: %#v", boxes)
	}
}

var serviceClauses = []clause{
	{"a runtime whose service is gone is unavailable, and works again when it is back", serviceGone},
	{"a runtime whose service hangs obeys the deadline, and works again when it answers", serviceHangs},
}

func serviceGone(t *trial) {
	b, c := t.started(Script{})
	r := t.record(noTime)
	t.h.Service.Stop()
	t.wantClass(t.broken(r), pod.Unavailable)
	_, err := t.h.Runtime.StopContainer(t.ctx(), c.ID, 0)
	t.wantClass(err, pod.Unavailable)
	_, err = t.h.Observer.InspectContainer(t.ctx(), c.ID)
	t.wantClass(err, pod.Unavailable)
	err = t.h.Observer.Events(t.ctx(), noTime, func() { t.Error("a stream was opened") }, func(pod.RuntimeEvent) {})
	t.wantClass(err, pod.Unavailable)
	t.h.Service.Start()
	if got := t.inspect(c.ID); got.State != pod.RunRunning || !got.StartedAt.Equal(c.StartedAt) {
		t.Errorf("it is %#v; want it untouched", got)
	}
	if boxes, containers := t.listed(b.UID); len(boxes) != 1 || len(containers) != 1 {
		t.Errorf("listed %#v %#v", boxes, containers)
	}
}

func serviceHangs(t *trial) {
	_, c := t.started(Script{})
	r := t.record(noTime)
	t.h.Service.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := t.h.Observer.InspectContainer(ctx, c.ID)
	t.wantClass(err, pod.Unavailable)
	_, err = t.h.Runtime.StopContainer(ctx, c.ID, 0)
	t.wantClass(err, pod.Unavailable)
	_, _, err = t.h.Observer.List(ctx)
	t.wantClass(err, pod.Unavailable)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s to give up", took)
	}
	t.h.Service.Resume()
	_, err = t.h.Runtime.StopContainer(t.ctx(), c.ID, 0)
	t.must(err)
	t.await(r, pod.EventDied, c.ID)
}
