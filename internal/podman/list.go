package podman

import (
	"context"
	"slices"
	"time"

	"github.com/containers/podman/v4/pkg/bindings/containers"
	"github.com/containers/podman/v4/pkg/domain/entities"

	"podstead.io/podstead/internal/pod"
)

// List returns everything of the node's in one call to Podman, infra containers
// as sandboxes. A listing knows whole seconds only, and neither addresses nor
// why a container ended.
func (d *Driver) List(ctx context.Context) ([]pod.Sandbox, []pod.Container, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return nil, nil, err
	}
	options := new(containers.ListOptions).WithAll(true).WithFilters(map[string][]string{"label": {pod.LabelNode + "=" + d.o.Node}})
	before := d.exits.known()
	list, err := containers.List(ctx, options)
	if err != nil {
		return nil, nil, classify("list containers at", d.o.URL, err)
	}
	var boxes []pod.Sandbox
	var all []pod.Container
	for _, c := range list {
		id, err := pod.ParseLabels(c.Labels)
		if err != nil {
			d.o.Log.Warn("a container carries this node's label but not all others; leaving it alone", "container", c.ID, "err", err)
			continue
		}
		d.mine.LoadOrStore(c.ID, false)
		if id.Kind == pod.KindSandbox {
			d.infra.Store(c.Pod, c.ID)
			box := listedSandbox(c, id)
			d.settleSandbox(&box, c.Pid)
			if d.unsettled(box.State, c) {
				if seen, err := d.InspectSandbox(ctx, box.ID); err == nil {
					box = seen
				}
			}
			boxes = append(boxes, box)
		} else {
			one := listedContainer(c, id)
			d.settle(&one)
			if d.unsettled(one.State, c) {
				if seen, err := d.InspectContainer(ctx, one.ID); err == nil {
					one = seen
				}
			}
			all = append(all, one)
		}
	}
	for _, id := range before { // of those that vanished there may have been no event
		if !slices.ContainsFunc(list, func(c entities.ListContainer) bool { return c.ID == id }) {
			d.exits.forget(id)
		}
	}
	return boxes, all, nil
}

// unsettled reports whether Podman lists as running what does not run: after a
// boot that it did not notice that is everything.
func (d *Driver) unsettled(s pod.RunState, c entities.ListContainer) bool {
	at, _ := d.exits.ended(c.ID, c.Pid)
	return s.Live() && !at.IsZero()
}

func listedSandbox(c entities.ListContainer, id pod.Identity) pod.Sandbox {
	started, exited := normalize(time.Unix(c.StartedAt, 0)), normalize(time.Unix(c.ExitedAt, 0))
	return pod.Sandbox{
		Key: id.Key, UID: id.UID, ID: c.Pod, InfraID: c.ID, Name: c.PodName,
		Attempt: id.Attempt, Revision: id.Revision, Hash: id.Hash, State: runState(c.State, started),
		CreatedAt: normalize(c.Created), StartedAt: started, ExitedAt: exited,
	}
}

func listedContainer(c entities.ListContainer, id pod.Identity) pod.Container {
	started, finished := normalize(time.Unix(c.StartedAt, 0)), normalize(time.Unix(c.ExitedAt, 0))
	out := pod.Container{
		Key: id.Key, UID: id.UID, Container: id.Container, Kind: id.Kind, ID: c.ID, SandboxID: c.Pod,
		Attempt: id.Attempt, Revision: id.Revision, State: runState(c.State, started),
		Image: c.Image, ImageID: c.ImageID, PID: c.Pid, ExitCode: int(c.ExitCode),
		CreatedAt: normalize(c.Created), StartedAt: started, FinishedAt: finished,
	}
	if len(c.Names) > 0 {
		out.Name = c.Names[0]
	}
	return out
}
