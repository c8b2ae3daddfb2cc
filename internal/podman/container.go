package podman

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containers/image/v5/manifest"
	"github.com/containers/podman/v4/libpod/define"
	"github.com/containers/podman/v4/pkg/bindings/containers"
	"github.com/containers/podman/v4/pkg/specgen"
	spec "github.com/opencontainers/runtime-spec/specs-go"

	"podstead.io/podstead/internal/pod"
)

// logSize caps a container's log, as kubelet's containerLogMaxSize does.
const logSize = 10 << 20

// killed is the exit code of a process that SIGKILL ended.
const killed = 128 + 9

// defaultPath is what other runtimes give to a container whose image sets no
// PATH; Podman 4.3 gives none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// CreateContainer makes a container in its sandbox, or returns the one that was
// made before for the same identity.
func (d *Driver) CreateContainer(ctx context.Context, s pod.ContainerSpec) (pod.Container, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Container{}, err
	}
	name := s.RuntimeName()
	g, err := d.generator(ctx, s)
	if err != nil {
		return pod.Container{}, err
	}
	made, err := containers.CreateWithSpec(ctx, g, nil)
	if err := classify("create container", name, err); errors.Is(err, pod.Conflict) {
		return d.adoptContainer(ctx, s, g)
	} else if err != nil {
		return pod.Container{}, err
	}
	d.mine.Store(made.ID, nil)
	return pod.Container{
		Key: s.Key, UID: s.UID, Container: s.Container, Kind: s.Kind, ID: made.ID, Name: name, SandboxID: s.SandboxID,
		Attempt: s.Attempt, Revision: s.Revision, State: pod.RunCreated, Image: s.Image, ImageID: s.ImageID, CreatedAt: normalize(time.Now()),
	}, nil
}

// adoptContainer deals with a name in use: the same container is returned while
// it has not ended, another of the node's is removed and made again, and what
// is not the node's is left alone. After a power cut Podman's storage may know
// a name that Podman itself does not; removing it by name mends that.
func (d *Driver) adoptContainer(ctx context.Context, s pod.ContainerSpec, g *specgen.SpecGenerator) (pod.Container, error) {
	name := s.RuntimeName()
	data, err := containers.Inspect(ctx, name, nil)
	if err := classify("inspect container", name, err); err != nil && !errors.Is(err, pod.NotFound) {
		return pod.Container{}, err
	}
	if err == nil {
		id, err := d.owned(data)
		if err != nil || id.UID != s.UID {
			return pod.Container{}, foreign("create container", name)
		}
		if id.Revision == s.Revision && data.Pod == s.SandboxID {
			return d.container(data, id), nil
		}
	}
	if err := d.remove(ctx, name); err != nil {
		return pod.Container{}, err
	}
	made, err := containers.CreateWithSpec(ctx, g, nil)
	if err != nil {
		return pod.Container{}, classify("create container", name, err)
	}
	return d.InspectContainer(ctx, made.ID)
}

func (d *Driver) generator(ctx context.Context, s pod.ContainerSpec) (*specgen.SpecGenerator, error) {
	g := specgen.NewSpecGenerator(s.ImageID, false)
	g.Name = s.RuntimeName()
	g.Pod = s.SandboxID
	g.RawImageName = s.Image
	g.Labels = s.Identity.Labels()
	g.Annotations = maps.Clone(s.Annotations)
	g.Entrypoint, g.Command = s.Command, s.Args
	if s.Command != nil && s.Args == nil {
		// An entry point alone keeps the image's command in Podman and drops it
		// in Kubernetes.
		g.Command = []string{}
		g.Entrypoint, g.Command = s.Command[:1], append(g.Command, s.Command[1:]...)
	}
	g.Env = map[string]string{}
	for _, e := range s.Env {
		g.Env[e.Name] = e.Value
	}
	if err := d.givePath(ctx, g); err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		options := []string{"rbind", "rprivate"}
		if m.ReadOnly {
			options = append(options, "ro")
		}
		g.Mounts = append(g.Mounts, spec.Mount{Type: define.TypeBind, Source: m.HostPath, Destination: m.ContainerPath, Options: options})
	}
	if s.HostPID {
		g.PidNS = specgen.Namespace{NSMode: specgen.Host}
	}
	if s.HostIPC { // Podman 4.3 does not know it of a pod
		g.IpcNS = specgen.Namespace{NSMode: specgen.Host}
	}
	g.ResourceLimits = limits(s.Resources)
	g.LogConfiguration = &specgen.LogConfig{Driver: define.KubernetesLogging, Size: logSize}
	g.RestartPolicy = define.RestartPolicyNo // the agent restarts
	g.SdNotifyMode = define.SdNotifyModeIgnore
	g.HealthConfig = &manifest.Schema2HealthConfig{Test: []string{"NONE"}} // Kubernetes ignores the image's
	timeout := seconds(s.StopTimeout)
	g.StopTimeout = &timeout
	return g, nil
}

// givePath sets PATH when neither the image nor the manifest does.
func (d *Driver) givePath(ctx context.Context, g *specgen.SpecGenerator) error {
	if _, ok := g.Env["PATH"]; ok {
		return nil
	}
	has, err := d.imageHasPath(ctx, g.Image)
	if err != nil {
		return err
	}
	if !has {
		g.Env["PATH"] = defaultPath
	}
	return nil
}

func limits(r pod.Resources) *spec.LinuxResources {
	l := &spec.LinuxResources{CPU: &spec.LinuxCPU{}}
	if r.CPUShares != 0 {
		l.CPU.Shares = &r.CPUShares
	}
	if r.CPUQuota != 0 {
		l.CPU.Quota, l.CPU.Period = &r.CPUQuota, &r.CPUPeriod
	}
	if r.MemoryLimit != 0 {
		// Swap included, so that the limit is one.
		l.Memory = &spec.LinuxMemory{Limit: &r.MemoryLimit, Swap: &r.MemoryLimit}
	}
	return l
}

// StartContainer starts a created container.
func (d *Driver) StartContainer(ctx context.Context, id string) (pod.Container, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Container{}, err
	}
	if err := d.mustOwn(ctx, id); err != nil {
		return pod.Container{}, err
	}
	startErr := classify("start container", id, containers.Start(ctx, id, nil))
	if startErr != nil && !errors.Is(startErr, pod.Invalid) {
		return pod.Container{}, startErr
	}
	c, err := d.InspectContainer(ctx, id)
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
	options := new(containers.StopOptions).WithTimeout(seconds(grace))
	err = classify("stop container", id, containers.Stop(ctx, id, options))
	if errors.Is(err, pod.Conflict) {
		err = d.stopPaused(ctx, id, options)
	}
	if err != nil {
		return pod.Container{}, err
	}
	return d.InspectContainer(ctx, id)
}

// stopPaused resumes first: Podman does not stop what is paused. A container in
// another state that can't be stopped has nothing that runs.
func (d *Driver) stopPaused(ctx context.Context, id string, options *containers.StopOptions) error {
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
	d.mine.Delete(id)
	return d.remove(ctx, id)
}

// remove takes a name too, and storage that Podman itself does not know.
func (d *Driver) remove(ctx context.Context, id string) error {
	reports, err := containers.Remove(ctx, id, new(containers.RemoveOptions).WithForce(true).WithVolumes(true).WithTimeout(0))
	for _, r := range reports {
		err = errors.Join(err, r.Err)
	}
	if err := classify("remove container", id, err); !errors.Is(err, pod.NotFound) {
		return err
	}
	return nil
}

// InspectContainer describes a container of the node's. An infra container has
// KindSandbox, and its SandboxID says which sandbox's it is.
func (d *Driver) InspectContainer(ctx context.Context, id string) (pod.Container, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Container{}, err
	}
	data, err := containers.Inspect(ctx, id, nil)
	if err != nil {
		return pod.Container{}, classify("inspect container", id, err)
	}
	identity, err := d.owned(data)
	if err != nil {
		return pod.Container{}, err
	}
	return d.container(data, identity), nil
}

// mustOwn fails with NotFound for a container that is not the node's. What was
// seen to be is not asked for again: labels never change.
func (d *Driver) mustOwn(ctx context.Context, id string) error {
	if _, ok := d.mine.Load(id); ok {
		return nil
	}
	_, err := d.InspectContainer(ctx, id)
	return err
}

// owned is the identity on the labels, or NotFound: what is not the node's does
// not exist for it.
func (d *Driver) owned(data *define.InspectContainerData) (pod.Identity, error) {
	var labels map[string]string
	if data.Config != nil {
		labels = data.Config.Labels
	}
	id, err := pod.ParseLabels(labels)
	if err != nil || id.Node != d.o.Node {
		return id, &pod.Error{Class: pod.NotFound, Op: "find among this node's containers", Object: data.Name, Err: fmt.Errorf("its labels are not this node's")}
	}
	d.mine.Store(data.ID, nil)
	return id, nil
}

func (d *Driver) container(data *define.InspectContainerData, id pod.Identity) pod.Container {
	c := pod.Container{
		Key: id.Key, UID: id.UID, Container: id.Container, Kind: id.Kind, ID: data.ID, Name: data.Name, SandboxID: data.Pod,
		Attempt: id.Attempt, Revision: id.Revision, State: runState(data.State.Status),
		Image: data.ImageName, ImageID: data.Image, PID: data.State.Pid,
		ExitCode: int(data.State.ExitCode), OOMKilled: data.State.OOMKilled, Error: data.State.Error,
		CreatedAt: normalize(data.Created), StartedAt: normalize(data.State.StartedAt), FinishedAt: normalize(data.State.FinishedAt),
	}
	if c.ExitCode == killed && c.State == pod.RunExited && d.o.OOMKilled != nil {
		c.OOMKilled = c.OOMKilled || d.o.OOMKilled(c.ID)
	}
	if data.HostConfig != nil && data.HostConfig.LogConfig != nil {
		c.LogPath = data.HostConfig.LogConfig.Path
	}
	return c
}
