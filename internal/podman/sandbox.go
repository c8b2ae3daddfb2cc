package podman

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	nettypes "github.com/containers/common/libnetwork/types"
	"github.com/containers/podman/v4/libpod/define"
	"github.com/containers/podman/v4/pkg/bindings/containers"
	"github.com/containers/podman/v4/pkg/bindings/pods"
	"github.com/containers/podman/v4/pkg/domain/entities"
	"github.com/containers/podman/v4/pkg/specgen"

	"podstead.io/podstead/internal/pod"
)

// CreateSandbox makes a Podman pod with its infra container, or returns the one
// that was made before for the same identity.
func (d *Driver) CreateSandbox(ctx context.Context, spec pod.SandboxSpec) (pod.Sandbox, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Sandbox{}, err
	}
	name := spec.SandboxName()
	made, err := pods.CreatePodFromSpec(ctx, &entities.PodSpec{PodSpecGen: sandboxGenerator(spec)})
	if err := classify("create pod", name, err); errors.Is(err, pod.Conflict) {
		return d.adoptSandbox(ctx, spec)
	} else if err != nil {
		return pod.Sandbox{}, err
	}
	d.infra.Store(made.Id, spec.RuntimeName())
	d.mine.Store(made.Id, nil)
	return pod.Sandbox{
		Key: spec.Key, UID: spec.UID, ID: made.Id, Name: name, Attempt: spec.Attempt, Revision: spec.Revision, Hash: spec.Hash,
		State: pod.RunCreated, CreatedAt: normalize(time.Now()),
	}, nil
}

// adoptSandbox deals with a name in use: the same sandbox is returned, an older
// one of the node's is removed and made again, and what is not the node's is
// left alone.
func (d *Driver) adoptSandbox(ctx context.Context, spec pod.SandboxSpec) (pod.Sandbox, error) {
	name := spec.SandboxName()
	found, err := pods.Inspect(ctx, name, nil)
	if err != nil {
		return pod.Sandbox{}, classify("inspect pod", name, err)
	}
	id, err := pod.ParseLabels(found.Labels)
	if err != nil || id.Node != d.o.Node || id.UID != spec.UID {
		return pod.Sandbox{}, foreign("create pod", name)
	}
	if id.Attempt == spec.Attempt && id.Revision == spec.Revision && found.InfraContainerID != "" {
		return d.InspectSandbox(ctx, found.ID)
	}
	if err := d.RemoveSandbox(ctx, found.ID, 0); err != nil {
		return pod.Sandbox{}, err
	}
	made, err := pods.CreatePodFromSpec(ctx, &entities.PodSpec{PodSpecGen: sandboxGenerator(spec)})
	if err != nil {
		return pod.Sandbox{}, classify("create pod", name, err)
	}
	return d.InspectSandbox(ctx, made.Id)
}

func sandboxGenerator(spec pod.SandboxSpec) specgen.PodSpecGenerator {
	g := specgen.NewPodSpecGenerator()
	g.Name = spec.SandboxName()
	g.InfraName = spec.RuntimeName()
	g.Labels = maps.Clone(spec.Labels)
	if g.Labels == nil {
		g.Labels = map[string]string{}
	}
	maps.Copy(g.Labels, spec.Identity.Labels())
	g.Hostname = spec.Hostname
	g.SharedNamespaces = []string{"ipc", "net", "uts"}
	g.ExitPolicy = "continue" // with "stop", as kube play has it, removal takes 3 s longer
	if spec.HostNetwork {
		g.NetNS = specgen.Namespace{NSMode: specgen.Host}
		g.UtsNs = specgen.Namespace{NSMode: specgen.Host}
	}
	if spec.HostIPC {
		g.Ipc = specgen.Namespace{NSMode: specgen.Host}
	}
	if spec.HostPID {
		g.Pid = specgen.Namespace{NSMode: specgen.Host}
	}
	for _, p := range spec.Ports {
		g.PortMappings = append(g.PortMappings, nettypes.PortMapping{
			HostIP: p.HostIP, HostPort: uint16(p.HostPort), ContainerPort: uint16(p.ContainerPort), Protocol: strings.ToLower(string(p.Protocol)),
		})
	}
	return *g
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
	return classify("start the infra container of pod", id, containers.Start(ctx, infra, nil))
}

func (d *Driver) infraOf(ctx context.Context, id string) (string, error) {
	if name, ok := d.infra.LoadAndDelete(id); ok {
		return name.(string), nil
	}
	found, err := pods.Inspect(ctx, id, nil)
	if err != nil {
		return "", classify("inspect pod", id, err)
	}
	if found.InfraContainerID == "" {
		return "", &pod.Error{Class: pod.NotFound, Op: "find the infra container of pod", Object: id, Err: errors.New("it has none")}
	}
	return found.InfraContainerID, nil
}

// InspectSandbox describes a Podman pod of the node's.
func (d *Driver) InspectSandbox(ctx context.Context, id string) (pod.Sandbox, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Sandbox{}, err
	}
	found, err := pods.Inspect(ctx, id, nil)
	if err != nil {
		return pod.Sandbox{}, classify("inspect pod", id, err)
	}
	if found.InfraContainerID == "" {
		return pod.Sandbox{}, &pod.Error{Class: pod.NotFound, Op: "find the infra container of pod", Object: id, Err: errors.New("it has none")}
	}
	return d.inspectInfra(ctx, found.InfraContainerID)
}

// inspectInfra describes the sandbox from its infra container, which carries
// the pod's labels.
func (d *Driver) inspectInfra(ctx context.Context, infra string) (pod.Sandbox, error) {
	data, err := containers.Inspect(ctx, infra, nil)
	if err != nil {
		return pod.Sandbox{}, classify("inspect container", infra, err)
	}
	id, err := d.owned(data)
	if err != nil {
		return pod.Sandbox{}, err
	}
	d.mine.Store(data.Pod, nil)
	return pod.Sandbox{
		Key: id.Key, UID: id.UID, ID: data.Pod, InfraID: data.ID, Name: id.SandboxName(),
		Attempt: id.Attempt, Revision: id.Revision, Hash: id.Hash,
		State: runState(data.State.Status), IPs: addresses(data),
		CreatedAt: normalize(data.Created), StartedAt: normalize(data.State.StartedAt), ExitedAt: normalize(data.State.FinishedAt),
	}, nil
}

// addresses lists those of every network, IPv4 before IPv6. Podman keeps them
// in its answer after the container has ended; they are nobody's then.
func addresses(data *define.InspectContainerData) []string {
	if data.NetworkSettings == nil || !runState(data.State.Status).Live() {
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

// RemoveSandbox removes a Podman pod and all its containers.
func (d *Driver) RemoveSandbox(ctx context.Context, id string, grace time.Duration) error {
	ctx, err := d.call(ctx)
	if err != nil {
		return err
	}
	if _, ok := d.mine.LoadAndDelete(id); !ok {
		if _, err := d.InspectSandbox(ctx, id); errors.Is(err, pod.NotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	d.infra.Delete(id)
	force := new(pods.RemoveOptions).WithForce(true).WithTimeout(seconds(grace))
	_, err = pods.Remove(ctx, id, force)
	if err := classify("remove pod", id, err); !errors.Is(err, pod.NotFound) {
		return err
	}
	return nil
}

// seconds rounds up: a grace is never cut short.
func seconds(d time.Duration) uint {
	if d <= 0 {
		return 0
	}
	return uint((d + time.Second - 1) / time.Second)
}
