package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// mounting gives every container of the pod the volume at /NAME.
func mounting(p *corev1.Pod, name string, source corev1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}

func emptyDir(medium corev1.StorageMedium, limit string) corev1.VolumeSource {
	source := &corev1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		size := resource.MustParse(limit)
		source.SizeLimit = &size
	}
	return corev1.VolumeSource{EmptyDir: source}
}

func hostPath(path string, kind corev1.HostPathType) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	t.Run("emptyDir", a.emptyDirs)
	t.Run("hostPath", a.hostPaths)
	t.Run("hostPath that is missing", a.missingHostPath)
	t.Run("hostPath of the wrong type", a.wrongHostPaths)
}

// emptyDirs shares a volume on disk and one in memory between two containers,
// restarts one of them, and deletes the pod.
func (a *agent) emptyDirs(t *testing.T) {
	p := newPod("scratch", sleeper("a"), sleeper("b"))
	mounting(p, "disk", emptyDir("", ""))
	mounting(p, "memory", emptyDir(corev1.StorageMediumMemory, "8Mi"))
	p.Spec.Containers[1].VolumeMounts[0].ReadOnly = true
	a.drop(t, p)
	name := static("scratch")
	is := a.awaitRunning(t, name, "a", "b")
	a.exec(t, is["a"].ID, "sh", "-c", "echo on disk >/disk/file; echo in memory >/memory/file")
	if got := a.exec(t, is["b"].ID, "cat", "/disk/file", "/memory/file"); got != "on disk\nin memory" {
		t.Errorf("the other container reads %q", got)
	}
	if _, err := a.host.Podman("exec", is["b"].ID, "touch", "/disk/mine"); err == nil {
		t.Error("a read-only mount can be written")
	}
	table := strings.Fields(a.exec(t, is["a"].ID, "sh", "-c", "df -k /memory | tail -n 1"))
	if len(table) < 2 || table[0] != "tmpfs" || table[1] != "8192" {
		t.Errorf("the volume in memory is %v", table)
	}
	// One that may write more would fill the machine's memory.
	if said := a.exec(t, is["a"].ID, "sh", "-c", "dd if=/dev/zero of=/memory/big bs=1M count=9 2>&1; rm -f /memory/big"); !strings.Contains(said, "No space left") {
		t.Errorf("more than the limit was written: %s", said)
	}

	mustPodman(t, a, "kill", is["a"].ID)
	a.awaitStatus(t, name, "runs container a again", func(s corev1.PodStatus) bool {
		return statusOf(s, "a").RestartCount == 1 && statusOf(s, "a").State.Running != nil
	})
	again := a.live(t, name)
	if got := a.exec(t, again["a"].ID, "cat", "/disk/file", "/memory/file"); got != "on disk\nin memory" {
		t.Errorf("after a restart the container reads %q", got)
	}

	uid := string(a.mustPod(t, name).UID)
	a.remove(t, "scratch.yaml")
	a.awaitGone(t, name)
	for _, left := range a.volumesLeft(t) {
		if left == uid {
			t.Error("the pod's volumes were left behind")
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), uid) {
		t.Errorf("the volume in memory is still mounted (%v)", err)
	}
}

func mustPodman(t *testing.T, a *agent, args ...string) string {
	t.Helper()
	out, err := a.host.Podman(args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// hostPaths has a volume of every type. Block devices need one on the machine.
func (a *agent) hostPaths(t *testing.T) {
	dir := filepath.Join(a.host.Dir, "paths")
	if err := os.MkdirAll(filepath.Join(dir, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("from the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	disk := filepath.Join(dir, "disk")
	makeBlockDevice(t, disk)

	p := newPod("host", sleeper("a"))
	mounting(p, "plain", hostPath(filepath.Join(dir, "made", "plain"), corev1.HostPathUnset))
	mounting(p, "there", hostPath(filepath.Join(dir, "there"), corev1.HostPathDirectory))
	mounting(p, "directory", hostPath(filepath.Join(dir, "made", "directory"), corev1.HostPathDirectoryOrCreate))
	mounting(p, "file", hostPath(filepath.Join(dir, "file"), corev1.HostPathFile))
	mounting(p, "newfile", hostPath(filepath.Join(dir, "newfile"), corev1.HostPathFileOrCreate))
	mounting(p, "socket", hostPath(filepath.Join(dir, "socket"), corev1.HostPathSocket))
	mounting(p, "null", hostPath("/dev/null", corev1.HostPathCharDev))
	mounting(p, "block", hostPath(disk, corev1.HostPathBlockDev))
	a.drop(t, p)
	id := a.awaitRunning(t, static("host"), "a")["a"].ID
	tests := "[ -d /plain ] && [ -d /there ] && [ -d /directory ] && [ -f /file ] && [ -f /newfile ] && [ -S /socket ] && [ -c /null ] && [ -b /block ] && cat /file"
	if got := a.exec(t, id, "sh", "-c", tests); got != "from the host" {
		t.Errorf("the container reads %q", got)
	}
	a.exec(t, id, "sh", "-c", "echo inside >/there/written; echo inside >/newfile")
	for _, file := range []string{"there/written", "newfile"} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != "inside\n" {
			t.Errorf("%s holds %q (%v)", file, got, err)
		}
	}
	a.remove(t, "host.yaml")
	a.awaitGone(t, static("host"))
	if _, err := os.Stat(filepath.Join(dir, "there", "written")); err != nil {
		t.Errorf("what is the host's was deleted with the pod: %v", err)
	}
}

// missingHostPath waits for a directory to appear, and so does the pod.
func (a *agent) missingHostPath(t *testing.T) {
	path := filepath.Join(a.host.Dir, "later")
	p := newPod("waits", sleeper("a"))
	mounting(p, "later", hostPath(path, corev1.HostPathDirectory))
	a.drop(t, p)
	a.awaitEvent(t, static("waits"), corev1.EventTypeWarning, "FailedMount", path)
	s := a.awaitStatus(t, static("waits"), "waits", func(s corev1.PodStatus) bool { return waitsFor(s, "a") == "ContainerCreating" }).Status
	if message := statusOf(s, "a").State.Waiting.Message; !strings.Contains(message, path) {
		t.Errorf("the container waits and does not say for %s: %q", path, message)
	}
	if alive := a.live(t, static("waits")); len(names(alive)) > 0 {
		t.Errorf("it runs without its volume: %v", alive)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	a.awaitRunning(t, static("waits"), "a")
}

// wrongHostPaths are refused with an event that names what was found.
func (a *agent) wrongHostPaths(t *testing.T) {
	dir := filepath.Join(a.host.Dir, "wrong")
	file, dangling := filepath.Join(dir, "file"), filepath.Join(dir, "dangling")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nothing"), dangling); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		kind       corev1.HostPathType
		says       string
	}{
		{"no-directory", file, corev1.HostPathDirectory, "is a regular file"},
		{"no-directory-or-create", file, corev1.HostPathDirectoryOrCreate, "is a regular file"},
		{"no-file", dir, corev1.HostPathFile, "is a directory"},
		{"no-file-there", filepath.Join(dir, "nothing"), corev1.HostPathFile, "FileOrCreate"},
		{"no-parent", filepath.Join(dir, "nothing", "file"), corev1.HostPathFileOrCreate, "missing"},
		{"no-socket", file, corev1.HostPathSocket, "must be a socket"},
		{"no-device", file, corev1.HostPathCharDev, "must be a character device"},
		{"no-block-device", "/dev/null", corev1.HostPathBlockDev, "must be a block device"},
		{"dangling", dangling, corev1.HostPathUnset, "symbolic link to nothing"},
	}
	for _, test := range tests {
		p := newPod(test.name, sleeper("a"))
		mounting(p, "v", hostPath(test.path, test.kind))
		a.drop(t, p)
	}
	for _, test := range tests {
		a.awaitEvent(t, static(test.name), corev1.EventTypeWarning, "FailedMount", test.says)
		if alive := a.live(t, static(test.name)); len(names(alive)) > 0 {
			t.Errorf("%s: it runs: %v", test.name, alive)
		}
	}
	for _, test := range tests {
		a.remove(t, test.name+".yaml")
	}
	for _, test := range tests {
		a.awaitGone(t, static(test.name))
	}
}
