package podman

import (
	"context"
	"maps"
	"strings"

	nettypes "github.com/containers/common/libnetwork/types"
	"github.com/containers/image/v5/manifest"
	"github.com/containers/podman/v4/libpod/define"
	"github.com/containers/podman/v4/pkg/specgen"
	spec "github.com/opencontainers/runtime-spec/specs-go"

	"podstead.io/podstead/internal/pod"
)

// logSize caps a container's log, as kubelet's containerLogMaxSize does.
const logSize = 10 << 20

// defaultPath is what other runtimes give to a container whose image sets no
// PATH; Podman 4.3 gives none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// sandboxGenerator words a sandbox for Podman. Podman gives the pod's labels to
// the infra container too, and has no annotations for either.
func sandboxGenerator(s pod.SandboxSpec) specgen.PodSpecGenerator {
	g := specgen.NewPodSpecGenerator()
	g.Name = s.SandboxName()
	g.InfraName = s.RuntimeName()
	g.Labels = map[string]string{}
	maps.Copy(g.Labels, s.Labels)
	maps.Copy(g.Labels, s.Identity.Labels())
	g.Hostname = s.Hostname
	g.SharedNamespaces = []string{"ipc", "net", "uts"}
	g.ExitPolicy = "continue" // with "stop", as kube play has it, removal takes 3 s longer
	if s.HostNetwork {
		g.NetNS = specgen.Namespace{NSMode: specgen.Host}
		g.UtsNs = specgen.Namespace{NSMode: specgen.Host}
	}
	if s.HostIPC {
		g.Ipc = specgen.Namespace{NSMode: specgen.Host}
	}
	if s.HostPID {
		g.Pid = specgen.Namespace{NSMode: specgen.Host}
	}
	for _, p := range s.Ports {
		g.PortMappings = append(g.PortMappings, nettypes.PortMapping{
			HostIP: p.HostIP, HostPort: uint16(p.HostPort), ContainerPort: uint16(p.ContainerPort), Protocol: strings.ToLower(string(p.Protocol)),
		})
	}
	return *g
}

// containerGenerator words a container for Podman.
func (d *Driver) containerGenerator(ctx context.Context, s pod.ContainerSpec) (*specgen.SpecGenerator, error) {
	g := specgen.NewSpecGenerator(s.ImageID, false)
	g.Name = s.RuntimeName()
	g.Pod = s.SandboxID
	g.RawImageName = s.Image
	g.Labels = s.Identity.Labels()
	g.Annotations = annotations(s.Annotations)
	// Podman and Kubernetes agree: an entry point drops the image's command, and
	// an empty list is none.
	g.Entrypoint, g.Command = s.Command, s.Args
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
	if s.HostIPC {
		g.IpcNS = specgen.Namespace{NSMode: specgen.Host} // Podman 4.3 can't set it on the pod
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

// annotations leaves out those with which Podman steers itself: one of them has
// a container removed when it ends.
func annotations(given map[string]string) map[string]string {
	out := maps.Clone(given)
	maps.DeleteFunc(out, func(key, _ string) bool { return define.IsReservedAnnotation(key) })
	return out
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
	l := &spec.LinuxResources{
		CPU:  &spec.LinuxCPU{},
		Pids: &spec.LinuxPids{Limit: -1}, // kubelet's default podPidsLimit; Podman's is 2048
	}
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
