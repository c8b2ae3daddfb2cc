package podman

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/containers/podman/v4/libpod/define"
	"github.com/containers/podman/v4/pkg/bindings/containers"
	"github.com/containers/podman/v4/pkg/bindings/pods"
	"github.com/containers/podman/v4/pkg/domain/entities"

	"podstead.io/podstead/internal/pod"
)

// CreateSandbox makes a Podman pod with its infra container, or returns the one
// that was made before for the same identity.
func (d *Driver) CreateSandbox(ctx context.Context, spec pod.SandboxSpec) (pod.Sandbox, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Sandbox{}, err
	}
	b, err := d.createSandbox(ctx, spec)
	if !errors.Is(err, pod.Conflict) {
		return b, err
	}
	b, found, err := d.vacateSandbox(ctx, spec)
	if found || err != nil {
		return b, err
	}
	return d.createSandbox(ctx, spec)
}

func (d *Driver) createSandbox(ctx context.Context, spec pod.SandboxSpec) (pod.Sandbox, error) {
	name := spec.SandboxName()
	made, err := pods.CreatePodFromSpec(ctx, &entities.PodSpec{PodSpecGen: sandboxGenerator(spec)})
	if err := classify("create pod", name, err); err != nil {
		if errors.Is(err, pod.Unavailable) {
			return pod.Sandbox{}, err
		}
		return pod.Sandbox{}, errors.Join(err, d.dropHalfMade(ctx, spec))
	}
	d.infra.Store(made.Id, spec.RuntimeName())
	return pod.Sandbox{
		Key: spec.Key, UID: spec.UID, ID: made.Id, Name: name, Attempt: spec.Attempt, Revision: spec.Revision, Hash: spec.Hash,
		State: pod.RunCreated, CreatedAt: normalize(time.Now()),
	}, nil
}

// dropHalfMade removes the pod that Podman leaves behind when it can't make the
// infra container.
func (d *Driver) dropHalfMade(ctx context.Context, spec pod.SandboxSpec) error {
	found, id, err := d.inspectPod(ctx, spec.SandboxName())
	switch {
	case errors.Is(err, pod.NotFound):
		return nil
	case err != nil:
		return err
	case id.UID != spec.UID || found.InfraContainerID != "":
		return nil
	}
	return d.removePod(ctx, found.ID)
}

// vacateSandbox deals with names in use: the same sandbox is found, an older one
// of the pod's is removed, and what is not the node's is left alone.
func (d *Driver) vacateSandbox(ctx context.Context, spec pod.SandboxSpec) (b pod.Sandbox, found bool, err error) {
	name := spec.SandboxName()
	box, err := d.podHolder(ctx, name, spec.Identity)
	if err != nil {
		return pod.Sandbox{}, false, err
	}
	if box != nil {
		if box.identity.Attempt == spec.Attempt && box.identity.Revision == spec.Revision && box.data.InfraContainerID != "" {
			b, err := d.InspectSandbox(ctx, box.data.ID)
			return b, true, err
		}
		if err := d.removePod(ctx, box.data.ID); err != nil {
			return pod.Sandbox{}, false, err
		}
	}
	infra, err := d.holder(ctx, "create pod", spec.RuntimeName(), spec.Identity)
	switch {
	case err != nil:
		return pod.Sandbox{}, false, err
	case infra != nil && infra.data.Pod != "":
		return pod.Sandbox{}, false, d.removePod(ctx, infra.data.Pod)
	}
	return pod.Sandbox{}, false, d.remove(ctx, spec.RuntimeName())
}

// StartSandbox starts the infra container.
func (d *Driver) StartSandbox(ctx context.Context, id string) error {
	ctx, err := d.call(ctx)
	if err != nil {
		return err
	}
	infra, err := d.infraOf(ctx, id)
	if err != nil {
		return err
	}
	err = classify("start the infra container of pod", id, containers.Start(ctx, infra, nil))
	if errors.Is(err, pod.NotFound) {
		d.infra.Delete(id)
	}
	return err
}

// infraOf is the ID or name of the infra container of a pod of the node's.
func (d *Driver) infraOf(ctx context.Context, id string) (string, error) {
	if infra, ok := d.infra.Load(id); ok {
		return infra.(string), nil
	}
	found, _, err := d.inspectPod(ctx, id)
	if err != nil {
		return "", err
	}
	if found.InfraContainerID == "" {
		return "", &pod.Error{Class: pod.NotFound, Op: "find the infra container of pod", Object: id, Err: errors.New("it has none")}
	}
	return found.InfraContainerID, nil
}

// inspectPod asks about a pod by its ID or name; NotFound when it is not the
// node's.
func (d *Driver) inspectPod(ctx context.Context, id string) (*entities.PodInspectReport, pod.Identity, error) {
	found, err := pods.Inspect(ctx, id, nil)
	if err != nil {
		return nil, pod.Identity{}, classify("inspect pod", id, err)
	}
	identity, err := pod.ParseLabels(found.Labels)
	if err != nil || identity.Node != d.o.Node {
		return nil, pod.Identity{}, notOurs("inspect pod", id)
	}
	return found, identity, nil
}

// InspectSandbox describes a Podman pod of the node's from its infra container,
// which carries the pod's labels.
func (d *Driver) InspectSandbox(ctx context.Context, id string) (pod.Sandbox, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Sandbox{}, err
	}
	infra, err := d.infraOf(ctx, id)
	if err != nil {
		return pod.Sandbox{}, err
	}
	data, identity, err := d.look(ctx, infra)
	if err == nil && data.Pod != id {
		err = &pod.Error{Class: pod.NotFound, Op: "inspect the infra container of pod", Object: id, Err: errors.New("it belongs to another pod by now")}
	}
	if err != nil {
		if errors.Is(err, pod.NotFound) {
			d.infra.Delete(id)
		}
		return pod.Sandbox{}, err
	}
	b := pod.Sandbox{
		Key: identity.Key, UID: identity.UID, ID: data.Pod, InfraID: data.ID, Name: identity.SandboxName(),
		Attempt: identity.Attempt, Revision: identity.Revision, Hash: identity.Hash, IPs: addresses(data),
		CreatedAt: normalize(data.Created), StartedAt: normalize(data.State.StartedAt), ExitedAt: normalize(data.State.FinishedAt),
	}
	b.State = runState(data.State.Status, b.StartedAt)
	d.settleSandbox(&b, data.State.Pid)
	return b, nil
}

// addresses lists those of every network, IPv4 before IPv6. Podman keeps them
// in its answer after the container has ended; they are nobody's then.
func addresses(data *define.InspectContainerData) []string {
	if data.NetworkSettings == nil || data.State.Pid == 0 {
		return nil
	}
	var v4, v6 []string
	add := func(list *[]string, ip string) {
		if ip != "" {
			*list = append(*list, ip)
		}
	}
	for _, n := range data.NetworkSettings.Networks {
		add(&v4, n.IPAddress)
		add(&v6, n.GlobalIPv6Address)
	}
	if len(v4)+len(v6) == 0 {
		add(&v4, data.NetworkSettings.IPAddress)
		add(&v6, data.NetworkSettings.GlobalIPv6Address)
	}
	return append(v4, v6...)
}

// RemoveSandbox removes a Podman pod and all its containers, which get the grace
// side by side: Podman would give it to one after the other, and end the infra
// container, and with it the network, among them.
func (d *Driver) RemoveSandbox(ctx context.Context, id string, grace time.Duration) error {
	ctx, err := d.call(ctx)
	if err != nil {
		return err
	}
	if _, ok := d.infra.Load(id); !ok || grace > 0 {
		found, _, err := d.inspectPod(ctx, id)
		switch {
		case errors.Is(err, pod.NotFound):
			d.infra.Delete(id)
			return nil
		case err != nil:
			return err
		case grace > 0:
			if err := d.stopAll(ctx, found, grace); err != nil {
				return err
			}
		}
	}
	return d.removePod(ctx, id)
}

// stopAll ends what runs in a pod, but for its infra container.
func (d *Driver) stopAll(ctx context.Context, found *entities.PodInspectReport, grace time.Duration) error {
	errs := make([]error, len(found.Containers))
	var wg sync.WaitGroup
	for i, c := range found.Containers {
		if c.ID == found.InfraContainerID || !runState(c.State, time.Time{}).Live() {
			continue
		}
		wg.Go(func() {
			if err := d.stop(ctx, c.ID, grace); !errors.Is(err, pod.NotFound) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *Driver) removePod(ctx context.Context, id string) error {
	if infra, ok := d.infra.Load(id); ok {
		defer d.exits.expect(infra.(string))()
	}
	force := new(pods.RemoveOptions).WithForce(true).WithTimeout(0)
	err := removal("remove pod", id, func() error {
		_, err := pods.Remove(ctx, id, force)
		return err
	})
	if err == nil {
		d.infra.Delete(id)
	}
	return err
}

// seconds rounds up: a grace is never cut short.
func seconds(d time.Duration) uint {
	if d <= 0 {
		return 0
	}
	return uint((d + time.Second - 1) / time.Second)
}
