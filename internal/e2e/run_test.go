package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestHowContainersRun looks from outside at what a manifest says of containers.
func TestHowContainersRun(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	t.Run("command and environment", a.commandAndEnvironment)
	t.Run("resources", a.resources)
	t.Run("hostname", a.hostname)
	t.Run("host namespaces", a.hostNamespaces)
	t.Run("labels and annotations", a.labelsAndAnnotations)
	t.Run("status", a.status)
	t.Run("attempts", a.attemptsAreFresh)
}

func (a *agent) commandAndEnvironment(t *testing.T) {
	c := shell("a", `printf '%s\n' "$0" "$@"; env; exec sleep 3600`)
	c.Args = []string{"$(GREETING)", "$$(GREETING)", "$(MISSING)", "$(LATER)", "plain"}
	c.Env = []corev1.EnvVar{
		{Name: "WHO", Value: "world"},
		{Name: "GREETING", Value: "hello $(WHO)"},
		{Name: "LITERAL", Value: "$$(WHO)"},
		{Name: "AHEAD", Value: "$(LATER)"},
		{Name: "LATER", Value: "late"},
	}
	onlyArgs := corev1.Container{Name: "b", Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"sleep", "3600"}}
	a.drop(t, newPod("command", c, onlyArgs))
	is := a.awaitRunning(t, static("command"), "a", "b")
	var said string
	eventually(t, "the container has printed its environment", func() error {
		said = a.logs(t, is["a"].ID)
		return unless(strings.Contains(said, "PATH="), "it printed %q", said)
	})
	if want := "hello world\n$(GREETING)\n$(MISSING)\nlate\nplain\n"; !strings.HasPrefix(said, want) {
		t.Errorf("the arguments are\n%swant\n%s", said, want)
	}
	for _, want := range []string{"GREETING=hello world\n", "LITERAL=$(WHO)\n", "AHEAD=$(LATER)\n", "HOSTNAME=" + static("command") + "\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in the environment:\n%s", want, said)
		}
	}
}

// setting is a resource setting: its file in cgroups of version 2, and the
// controller and the file in version 1.
type setting struct{ v2, controller, v1 string }

// of reads the setting of a process, and says by which version.
func (s setting) of(t *testing.T, pid int) (value string, version int) {
	t.Helper()
	table, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	var file string
	for line := range strings.Lines(string(table)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case fields[0] == "0" && file == "":
			file, version = filepath.Join("/sys/fs/cgroup", fields[2], s.v2), 2
		case fields[1] == s.controller:
			file, version = filepath.Join("/sys/fs/cgroup", s.controller, fields[2], s.v1), 1
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content)), version
}

var (
	memoryLimit = setting{"memory.max", "memory", "memory.limit_in_bytes"}
	cpuShares   = setting{"cpu.weight", "cpu", "cpu.shares"}
	cpuQuota    = setting{"cpu.max", "cpu", "cpu.cfs_quota_us"}
)

func (a *agent) resources(t *testing.T) {
	c := sleeper("a")
	c.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("48Mi")},
	}
	a.drop(t, newPod("resources", c, sleeper("free")))
	is := a.awaitRunning(t, static("resources"), "a", "free")
	pid := is["a"].PID
	if got, _ := memoryLimit.of(t, pid); got != "50331648" {
		t.Errorf("the memory limit is %s", got)
	}
	if got, version := cpuShares.of(t, pid); version == 1 && got != "256" {
		t.Errorf("the CPU shares are %s", got)
	} else if weight, err := strconv.Atoi(got); version == 2 && (err != nil || weight < 2 || weight > 50) {
		t.Errorf("of a quarter of a CPU is made the weight %s", got) // 10 or 34: runc's formula has changed
	}
	if got, version := cpuQuota.of(t, pid); version == 1 && got != "50000" || version == 2 && got != "50000 100000" {
		t.Errorf("the CPU quota is %s", got)
	}
	if got, version := memoryLimit.of(t, is["free"].PID); version == 2 && got != "max" || version == 1 && len(got) < 15 {
		t.Errorf("the memory of a container without limit is limited to %s", got)
	}
	if got, version := cpuQuota.of(t, is["free"].PID); version == 1 && got != "-1" || version == 2 && got != "max 100000" {
		t.Errorf("the CPU quota of a container without limit is %s", got)
	}
	if got := a.mustPod(t, static("resources")).Status.QOSClass; got != corev1.PodQOSBurstable {
		t.Errorf("the QoS class is %s", got)
	}
}

func (a *agent) hostname(t *testing.T) {
	p := newPod("named", sleeper("a"))
	p.Spec.Hostname = "www"
	a.drop(t, p)
	is := a.awaitRunning(t, static("named"), "a")
	if got := a.exec(t, is["a"].ID, "hostname"); got != "www" {
		t.Errorf("the hostname is %q", got)
	}
}

// namespace is the namespace of a kind that a process is in.
func namespace(t *testing.T, pid, kind string) string {
	t.Helper()
	link, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func (a *agent) hostNamespaces(t *testing.T) {
	inside := newPod("inside", sleeper("a"), sleeper("b"))
	outside := newPod("outside", sleeper("a"))
	outside.Spec.HostNetwork, outside.Spec.HostPID, outside.Spec.HostIPC = true, true, true
	a.drop(t, inside)
	a.drop(t, outside)
	in, out := a.awaitRunning(t, static("inside"), "a", "b"), a.awaitRunning(t, static("outside"), "a")
	for _, kind := range []string{"net", "ipc", "pid", "uts"} {
		host := namespace(t, "thread-self", kind)
		first, second := namespace(t, strconv.Itoa(in["a"].PID), kind), namespace(t, strconv.Itoa(in["b"].PID), kind)
		if first == host {
			t.Errorf("a pod of its own shares the host's %s namespace", kind)
		}
		if (first == second) != (kind != "pid") {
			t.Errorf("the containers of a pod have %s namespaces %s and %s", kind, first, second)
		}
		if got := namespace(t, strconv.Itoa(out["a"].PID), kind); got != host {
			t.Errorf("the host's %s namespace was asked for, and it is another", kind)
		}
	}
	status := a.mustPod(t, static("outside")).Status
	if status.PodIP == "" || status.PodIP != status.HostIP {
		t.Errorf("with the host's network the pod's IP is %q and the host's %q", status.PodIP, status.HostIP)
	}
}

func (a *agent) labelsAndAnnotations(t *testing.T) {
	p := newPod("labelled", sleeper("a"))
	p.Labels = map[string]string{"app": "labelled"}
	p.Annotations = map[string]string{"example.com/note": "it works"}
	a.drop(t, p)
	is := a.awaitRunning(t, static("labelled"), "a")
	if out, err := a.host.Podman("pod", "ps", "--quiet", "--no-trunc", "--filter", "label=app=labelled"); err != nil || strings.TrimSpace(out) != is["a"].Sandbox {
		t.Errorf("the Podman pod with the label is %q (%v), want %s", out, err, is["a"].Sandbox)
	}
	if got := a.inspect(t, is["a"].ID, `{{index .Config.Annotations "example.com/note"}}`); got != "it works" {
		t.Errorf("the annotation is %q", got)
	}
	name := a.inspect(t, is["a"].ID, "{{.Name}}")
	if want := "k8s_a_labelled-node_default_" + string(a.mustPod(t, static("labelled")).UID) + "_0"; name != want {
		t.Errorf("the container is called %s, want %s", name, want)
	}
}

// status compares what the agent tells with what Podman knows.
func (a *agent) status(t *testing.T) {
	a.drop(t, newPod("told", sleeper("a")))
	is := a.awaitRunning(t, static("told"), "a")
	p := a.mustPod(t, static("told"))
	address := a.inspect(t, is["POD"].ID, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
	c := statusOf(p.Status, "a")
	switch {
	case p.Status.PodIP != address || address == "":
		t.Errorf("the pod's IP is %q, and Podman has %q", p.Status.PodIP, address)
	case c.ContainerID != "podman://"+is["a"].ID:
		t.Errorf("the container's ID is %s, and Podman has %s", c.ContainerID, is["a"].ID)
	case c.State.Running.StartedAt.Unix() != is["a"].StartedAt:
		t.Errorf("it was started at %s, and Podman has %d", c.State.Running.StartedAt, is["a"].StartedAt)
	case !c.Ready || c.RestartCount != 0 || c.Image != "docker.io/library/busybox:latest" || c.ImageID == "":
		t.Errorf("the container's status is %+v", c)
	case p.Status.StartTime == nil || p.Status.QOSClass != corev1.PodQOSBestEffort:
		t.Errorf("the pod's status is %+v", p.Status)
	}
	for _, want := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodReadyToStartContainers} {
		found := false
		for _, condition := range p.Status.Conditions {
			found = found || condition.Type == want && condition.Status == corev1.ConditionTrue
		}
		if !found {
			t.Errorf("condition %s does not hold: %+v", want, p.Status.Conditions)
		}
	}
}

// attemptsAreFresh has a container leave a file in its root filesystem and end:
// the next attempt does not find it, and the one before is kept for its logs.
func (a *agent) attemptsAreFresh(t *testing.T) {
	p := newPod("fresh", shell("a", `ls /mark 2>/dev/null; touch /mark; if [ -e /keep/second ]; then echo attempt 1; exec sleep 3600; fi; touch /keep/second; echo attempt 0`))
	p.Spec.Volumes = []corev1.Volume{{Name: "keep", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "keep", MountPath: "/keep"}}
	a.drop(t, p)
	a.awaitStatus(t, static("fresh"), "runs its second attempt", func(s corev1.PodStatus) bool {
		return statusOf(s, "a").RestartCount == 1 && statusOf(s, "a").State.Running != nil
	})
	is := a.live(t, static("fresh"))
	eventually(t, "the second attempt has printed", func() error {
		said := a.logs(t, is["a"].ID)
		return unless(said == "attempt 1\n", "it printed %q", said)
	})
	for _, c := range a.containers(t, static("fresh")) {
		if c.name() == "a" && !c.live() {
			if said := a.logs(t, c.ID); said != "attempt 0\n" || c.attempt() != 0 {
				t.Errorf("the attempt before is %s, and printed %q", c, said)
			}
			return
		}
	}
	t.Error("the attempt before was not kept")
}
