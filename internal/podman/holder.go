package podman

import (
	"context"
	"errors"

	"github.com/containers/podman/v4/libpod/define"
	"github.com/containers/podman/v4/pkg/bindings/containers"
	"github.com/containers/podman/v4/pkg/bindings/pods"
	"github.com/containers/podman/v4/pkg/domain/entities"

	"podstead.io/podstead/internal/pod"
)

// containerHolder and sandboxHolder have a name that is wanted.
type containerHolder struct {
	data     *define.InspectContainerData
	identity pod.Identity
}

type sandboxHolder struct {
	data     *entities.PodInspectReport
	identity pod.Identity
}

// holder is the container that has the name, nil when Podman knows none.
// Conflict: it is not of the same pod of this node.
func (d *Driver) holder(ctx context.Context, op, name string, want pod.Identity) (*containerHolder, error) {
	data, err := containers.Inspect(ctx, name, nil)
	if err := classify("inspect container", name, err); err != nil {
		return nil, ignoreAbsent(err)
	}
	if data.State == nil || data.Config == nil {
		return nil, foreign(op, name)
	}
	identity, err := d.samePod(data.Config.Labels, want)
	if err != nil {
		return nil, foreign(op, name)
	}
	return &containerHolder{data, identity}, nil
}

// podHolder is the same for a Podman pod.
func (d *Driver) podHolder(ctx context.Context, name string, want pod.Identity) (*sandboxHolder, error) {
	data, err := pods.Inspect(ctx, name, nil)
	if err := classify("inspect pod", name, err); err != nil {
		return nil, ignoreAbsent(err)
	}
	identity, err := d.samePod(data.Labels, want)
	if err != nil {
		return nil, foreign("create pod", name)
	}
	return &sandboxHolder{data, identity}, nil
}

func (d *Driver) samePod(labels map[string]string, want pod.Identity) (pod.Identity, error) {
	id, err := pod.ParseLabels(labels)
	if err == nil && (id.Node != d.o.Node || id.UID != want.UID) {
		err = notOurs("compare labels of", id.RuntimeName())
	}
	return id, err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, pod.NotFound) {
		return nil
	}
	return err
}
