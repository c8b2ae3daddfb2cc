package podman

import (
	"context"
	"errors"
	"time"

	"github.com/containers/podman/v4/libpod/define"
	"github.com/containers/podman/v4/pkg/bindings/containers"

	"podstead.io/podstead/internal/pod"
)

// killed is the exit code of a process that SIGKILL ended. The store gives it
// too to a container whose end nobody saw.
const killed = 128 + 9

// InspectContainer describes a container of the node's. An infra container has
// KindSandbox, and its SandboxID says which sandbox's it is.
func (d *Driver) InspectContainer(ctx context.Context, id string) (pod.Container, error) {
	data, identity, err := d.look(ctx, id)
	if err != nil {
		return pod.Container{}, err
	}
	c := d.container(data, identity)
	d.settle(&c)
	return c, nil
}

// look is inspect, asked again where Podman does not know yet that the process has
// ended: until it does, or its own event must be waited for. When the monitor is
// gone too, one more answer is the last word: it writes the end down before.
func (d *Driver) look(ctx context.Context, id string) (*define.InspectContainerData, pod.Identity, error) {
	alone := false
	for lag := lagFirst; ; lag *= 2 {
		data, identity, err := d.inspect(ctx, id)
		if err != nil || !runState(data.State.Status, normalize(data.State.StartedAt)).Live() {
			return data, identity, err
		}
		d.exits.follow(data.ID, data.State.Pid)
		at, final := d.exits.ended(data.ID, data.State.Pid)
		switch {
		case at.IsZero() || final || lag > lagLast:
			return data, identity, nil
		case alone:
			d.exits.unheard(data.ID, data.State.Pid)
			return data, identity, nil
		}
		if alone = !monitors(data.State.ConmonPid, data.ID); alone {
			continue
		}
		select {
		case <-ctx.Done():
			return data, identity, nil
		case <-time.After(lag):
		}
	}
}

// inspect asks about a container by its ID or name. What is not the node's does
// not exist for it: NotFound.
func (d *Driver) inspect(ctx context.Context, id string) (*define.InspectContainerData, pod.Identity, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return nil, pod.Identity{}, err
	}
	data, err := containers.Inspect(ctx, id, nil)
	if err := classify("inspect container", id, err); err != nil {
		if errors.Is(err, pod.NotFound) {
			d.mine.Delete(id)
		}
		return nil, pod.Identity{}, err
	}
	if data.State == nil || data.Config == nil {
		return nil, pod.Identity{}, &pod.Error{Class: pod.Internal, Op: "inspect container", Object: id, Err: errors.New("the answer of Podman left out its state or its configuration")}
	}
	identity, err := pod.ParseLabels(data.Config.Labels)
	if err != nil || identity.Node != d.o.Node {
		return nil, pod.Identity{}, notOurs("inspect container", id)
	}
	d.mine.LoadOrStore(data.ID, false)
	if identity.Kind == pod.KindSandbox {
		d.infra.Store(data.Pod, data.ID)
	}
	return data, identity, nil
}

func notOurs(op, object string) error {
	return &pod.Error{Class: pod.NotFound, Op: op, Object: object, Err: errors.New("its labels are not this node's")}
}

// mustOwn fails with NotFound for a container that is not the node's. What was
// seen to be is not asked for again: labels never change.
func (d *Driver) mustOwn(ctx context.Context, id string) error {
	if _, ok := d.mine.Load(id); ok {
		return nil
	}
	_, _, err := d.inspect(ctx, id)
	return err
}

func (d *Driver) container(data *define.InspectContainerData, id pod.Identity) pod.Container {
	s := data.State
	c := pod.Container{
		Key: id.Key, UID: id.UID, Container: id.Container, Kind: id.Kind, ID: data.ID, Name: data.Name, SandboxID: data.Pod,
		Attempt: id.Attempt, Revision: id.Revision, Image: data.ImageName, ImageID: data.Image, PID: s.Pid,
		ExitCode: int(s.ExitCode), OOMKilled: s.OOMKilled, Error: s.Error,
		CreatedAt: normalize(data.Created), StartedAt: normalize(s.StartedAt), FinishedAt: normalize(s.FinishedAt),
	}
	c.State = runState(s.Status, c.StartedAt)
	if data.HostConfig != nil && data.HostConfig.LogConfig != nil {
		c.LogPath = data.HostConfig.LogConfig.Path
	}
	switch {
	case c.State != pod.RunExited:
	case unseen(s.Status, c): // by anyone
		c.ExitCode, c.EndCause, c.EndDetail = killed, pod.CauseReboot, "the machine was restarted"
	case s.StoppedByUser: // newer services say so
		c.EndCause, c.EndDetail = pod.CauseUser, "stopped in Podman"
	}
	if c.State == pod.RunExited && c.ExitCode == killed && d.o.OOMKilled != nil {
		c.OOMKilled = c.OOMKilled || d.o.OOMKilled(c.ID)
	}
	return c
}

// normalize makes a time of Podman's comparable with one that the store kept:
// UTC, whole microseconds, and Podman's year 1 is no time.
func normalize(t time.Time) time.Time {
	if t.Year() <= 1 || t.Unix() <= 0 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// runState translates libpod's states.
func runState(status string, started time.Time) pod.RunState {
	switch status {
	case "configured", "created", "initialized":
		if cutOff(status, started) {
			return pod.RunExited
		}
		return pod.RunCreated
	case "running", "stopping":
		return pod.RunRunning
	case "paused":
		return pod.RunPaused
	case "stopped", "exited", "removing":
		return pod.RunExited
	default:
		return pod.RunUnknown
	}
}

// unseen reports whether nobody saw the end of a container that has ended. It may
// have the time of the end of an earlier run.
func unseen(status string, c pod.Container) bool {
	return !c.StartedAt.IsZero() && (c.FinishedAt.IsZero() || cutOff(status, c.StartedAt) && c.FinishedAt.Before(c.StartedAt))
}

// cutOff reports whether the container ran when the machine went down: Podman 4
// calls it created again afterwards, and all that is left of the run is the time
// at which it began. Podman 5 calls it exited, without a time of its end.
func cutOff(status string, started time.Time) bool {
	return (status == "configured" || status == "created") && !started.IsZero()
}
