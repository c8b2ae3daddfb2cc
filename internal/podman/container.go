package podman

import (
	"context"
	"errors"
	"time"

	"github.com/containers/podman/v4/pkg/bindings/containers"
	"github.com/containers/podman/v4/pkg/errorhandling"
	"github.com/containers/podman/v4/pkg/specgen"

	"podstead.io/podstead/internal/pod"
)

// CreateContainer makes a container in its sandbox, or returns the one that was
// made before for the same identity.
func (d *Driver) CreateContainer(ctx context.Context, s pod.ContainerSpec) (pod.Container, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Container{}, err
	}
	g, err := d.containerGenerator(ctx, s)
	if err != nil {
		return pod.Container{}, err
	}
	c, err := d.createContainer(ctx, s, g)
	if !errors.Is(err, pod.Conflict) {
		return c, err
	}
	c, found, err := d.vacateContainer(ctx, s)
	if found || err != nil {
		return c, err
	}
	return d.createContainer(ctx, s, g)
}

func (d *Driver) createContainer(ctx context.Context, s pod.ContainerSpec, g *specgen.SpecGenerator) (pod.Container, error) {
	made, err := containers.CreateWithSpec(ctx, g, nil)
	if err != nil {
		return pod.Container{}, classify("create container", g.Name, err)
	}
	d.mine.Store(made.ID, true)
	return pod.Container{
		Key: s.Key, UID: s.UID, Container: s.Container, Kind: s.Kind, ID: made.ID, Name: g.Name, SandboxID: s.SandboxID,
		Attempt: s.Attempt, Revision: s.Revision, State: pod.RunCreated, Image: s.Image, ImageID: s.ImageID, CreatedAt: normalize(time.Now()),
	}, nil
}

// vacateContainer deals with a name in use: the same container is found, another
// of the pod's is removed, and what is not the node's is left alone. After a
// power cut Podman's storage may know a name that Podman itself does not;
// removing it by name mends that.
func (d *Driver) vacateContainer(ctx context.Context, s pod.ContainerSpec) (c pod.Container, found bool, err error) {
	name := s.RuntimeName()
	owner, err := d.holder(ctx, "create container", name, s.Identity)
	if err != nil {
		return pod.Container{}, false, err
	}
	if owner != nil && owner.identity.Revision == s.Revision && owner.data.Pod == s.SandboxID {
		return d.container(owner.data, owner.identity), true, nil
	}
	return pod.Container{}, false, d.remove(ctx, name)
}

// StartContainer starts a created container. One that has run is returned as it
// is: Podman would run it again, and a start is repeated when its answer was
// lost.
func (d *Driver) StartContainer(ctx context.Context, id string) (pod.Container, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Container{}, err
	}
	if !d.mine.CompareAndSwap(id, true, false) {
		c, err := d.InspectContainer(ctx, id)
		if err != nil || c.State != pod.RunCreated {
			return c, err
		}
	}
	answer := containers.Start(ctx, id, nil)
	startErr := classify("start container", id, answer)
	if startErr != nil && !errors.Is(startErr, pod.Invalid) {
		return pod.Container{}, startErr
	}
	c, err := d.InspectContainer(ctx, id)
	var said *errorhandling.ErrorModel
	if errors.As(answer, &said) {
		c.Error = said.Message
	}
	return c, errors.Join(startErr, err)
}

// StopContainer ends a container and returns it as it ended.
func (d *Driver) StopContainer(ctx context.Context, id string, grace time.Duration) (pod.Container, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Container{}, err
	}
	if err := d.mustOwn(ctx, id); err != nil {
		return pod.Container{}, err
	}
	defer d.exits.expect(id)()
	if err := d.stop(ctx, id, grace); err != nil {
		return pod.Container{}, err
	}
	return d.InspectContainer(ctx, id)
}

func (d *Driver) stop(ctx context.Context, id string, grace time.Duration) error {
	options := new(containers.StopOptions).WithTimeout(seconds(grace))
	err := classify("stop container", id, containers.Stop(ctx, id, options))
	if !errors.Is(err, pod.Conflict) {
		return err
	}
	// Podman does not stop what is paused. In any other state that it can't be
	// stopped in, nothing runs.
	c, err := d.InspectContainer(ctx, id)
	if err != nil || c.State != pod.RunPaused {
		return err
	}
	if err := containers.Unpause(ctx, id, nil); err != nil {
		return classify("resume container", id, err)
	}
	return classify("stop container", id, containers.Stop(ctx, id, options))
}

// RemoveContainer removes a container, killing what may run in it.
func (d *Driver) RemoveContainer(ctx context.Context, id string) error {
	ctx, err := d.call(ctx)
	if err != nil {
		return err
	}
	if err := d.mustOwn(ctx, id); errors.Is(err, pod.NotFound) {
		return nil
	} else if err != nil {
		return err
	}
	defer d.exits.expect(id)()
	if err := d.remove(ctx, id); err != nil {
		return err
	}
	d.mine.Delete(id)
	d.exits.forget(id)
	return nil
}

// remove takes a name too, and storage that Podman itself does not know.
func (d *Driver) remove(ctx context.Context, id string) error {
	return removal("remove container", id, func() error {
		reports, err := containers.Remove(ctx, id, new(containers.RemoveOptions).WithForce(true).WithVolumes(true).WithTimeout(0))
		for _, r := range reports {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}

// removalTries is how often a removal is tried. Podman gives up when a process
// ends by itself while it is about to end it: "container state improper".
const removalTries = 3

// removal makes a removal of what may be absent.
func removal(op, object string, try func() error) error {
	var err error
	for range removalTries {
		err = classify(op, object, try())
		switch {
		case errors.Is(err, pod.NotFound):
			return nil
		case err == nil, errors.Is(err, pod.Unavailable), errors.Is(err, pod.Invalid):
			return err
		}
	}
	return err
}
