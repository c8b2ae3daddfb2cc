package podman_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/podman"
	"podstead.io/podstead/internal/runtimetest"
	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// bench is a driver over a Podman of its own, and a pod for the test.
type bench struct {
	*testing.T
	machine
	driver *podman.Driver
	box    pod.SandboxSpec
	image  string
}

// TestPodman has what the suite can't ask of every runtime.
func TestPodman(t *testing.T) {
	host := podmanhost.Start(t)
	tests := []struct {
		name string
		run  func(b *bench)
	}{
		{"a sandbox that was made by half is made anew", halfMade},
		{"nothing is left of a sandbox that can't be made", nothingLeft},
		{"a name that only the storage knows is taken", storageOnly},
		{"a container that has ended is not run again", notRunAgain},
		{"commands are replaced as in Kubernetes", commands},
		{"containers are made as they are asked for", settings},
		{"containers get their grace side by side", sideBySide},
		{"an end is told at once and known from then on", endTold},
		{"a container without its monitor ends too", unmonitored},
		{"a container with no control groups is followed", ungrouped},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := &bench{T: t, machine: machine{t: t, host: host}, driver: newDriver(t, host.URL)}
			image, err := b.driver.InspectImage(t.Context(), busybox)
			b.must(err)
			b.image = image.ID
			name := strings.ReplaceAll(strings.ReplaceAll(test.name, " ", "-"), "'", "")
			b.box = pod.SandboxSpec{Identity: pod.Identity{
				Key: pod.Key{Namespace: "default", Name: name}, UID: "u1", Node: "node-1", Kind: pod.KindSandbox, Container: pod.SandboxContainerName, Revision: 1, Hash: "h",
			}}
			test.run(b)
		})
	}
}

func newDriver(t *testing.T, url string) *podman.Driver {
	t.Helper()
	d, err := podman.New(podman.Options{URL: url, Node: "node-1", Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%v (class %q)", err, pod.ClassOf(err))
	}
}

// create makes the sandbox, which goes with the test.
func (b *bench) create() pod.Sandbox {
	b.Helper()
	box, err := b.driver.CreateSandbox(b.Context(), b.box)
	b.must(err)
	b.Cleanup(func() {
		if err := b.driver.RemoveSandbox(context.WithoutCancel(b.Context()), box.ID, 0); err != nil {
			b.Error(err)
		}
	})
	return box
}

func (b *bench) start() pod.Sandbox {
	b.Helper()
	box := b.create()
	b.must(b.driver.StartSandbox(b.Context(), box.ID))
	return box
}

func (b *bench) spec(box pod.Sandbox, name string, command ...string) pod.ContainerSpec {
	id := b.box.Identity
	id.Kind, id.Container = pod.KindContainer, name
	return pod.ContainerSpec{Identity: id, SandboxID: box.ID, Image: busybox, ImageID: b.image, Command: command}
}

func (b *bench) run(spec pod.ContainerSpec) pod.Container {
	b.Helper()
	c, err := b.driver.CreateContainer(b.Context(), spec)
	b.must(err)
	c, err = b.driver.StartContainer(b.Context(), c.ID)
	b.must(err)
	return c
}

func halfMade(b *bench) {
	args := []string{"pod", "create", "--infra=false", "--name", b.box.SandboxName()}
	for k, v := range b.box.Identity.Labels() {
		args = append(args, "--label", k+"="+v)
	}
	half := b.podman(args...)
	box := b.start()
	if box.ID == half {
		b.Error("it was taken as it was")
	}
	got, err := b.driver.InspectSandbox(b.Context(), box.ID)
	b.must(err)
	if got.State != pod.RunRunning || got.InfraID == "" {
		b.Errorf("it is %#v", got)
	}
}

func nothingLeft(b *bench) {
	theirs := b.Foreign(b.box.RuntimeName(), nil)
	b.Cleanup(func() { b.RemoveBehind(theirs) })
	_, err := b.driver.CreateSandbox(b.Context(), b.box)
	if !errors.Is(err, pod.Conflict) {
		b.Errorf("error %v of class %q", err, pod.ClassOf(err))
	}
	if left := b.podman("pod", "ps", "--quiet", "--filter", "name="+b.box.SandboxName()); left != "" {
		b.Errorf("the pod %s was left", left)
	}
	if !b.Runs(theirs) {
		b.Error("who had the name was ended")
	}
}

// storageOnly makes a container with a Podman that keeps its books elsewhere in
// the same storage: what is left when a power cut takes the books' last page.
func storageOnly(b *bench) {
	box := b.create()
	want := b.spec(box, "a", "/bin/sleep", "1000")
	books := b.TempDir()
	conf, err := os.ReadFile(filepath.Join(b.host.Dir, "containers.conf"))
	b.must(err)
	var lines []string
	for line := range strings.SplitSeq(string(conf), "\n") {
		for _, key := range []string{"static_dir", "tmp_dir", "volume_path"} {
			if strings.HasPrefix(line, key) {
				line = key + " = \"" + filepath.Join(books, key) + "\""
			}
		}
		lines = append(lines, line)
	}
	other := filepath.Join(books, "containers.conf")
	b.must(os.WriteFile(other, []byte(strings.Join(lines, "\n")), 0o600))
	elsewhere := *b.host.Service
	elsewhere.Env = append(slices.Clone(b.host.Env), "CONTAINERS_CONF="+other)
	if out, err := elsewhere.Podman("create", "--name", want.RuntimeName(), "--network", "none", busybox); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	if c := b.runIn(box, want); c.State != pod.RunRunning {
		b.Errorf("it is %#v", c)
	}
}

func (b *bench) runIn(box pod.Sandbox, spec pod.ContainerSpec) pod.Container {
	b.Helper()
	b.must(b.driver.StartSandbox(b.Context(), box.ID))
	return b.run(spec)
}

func notRunAgain(b *bench) {
	c := b.run(b.spec(b.start(), "a", "/bin/sh", "-c", "sleep 0.2; exit 3"))
	b.podman("wait", c.ID)
	// Neither the driver that started it, nor one that knows nothing of it.
	for _, driver := range []*podman.Driver{b.driver, newDriver(b.T, b.host.URL)} {
		again, err := driver.StartContainer(b.Context(), c.ID)
		b.must(err)
		if again.State != pod.RunExited || again.ExitCode != 3 || !again.StartedAt.Equal(c.StartedAt) {
			b.Errorf("started again: %#v; was %#v", again, c)
		}
	}
}

func commands(b *bench) {
	box := b.create()
	image := b.podman("commit", "--quiet", "--change", `ENTRYPOINT ["/bin/echo","entry"]`, "--change", `CMD ["command"]`, b.podman("create", busybox), "localhost/commanded:latest")
	tests := []struct {
		name          string
		command, args []string
		want          string
	}{
		{"neither", nil, nil, "/bin/echo entry command"},
		{"empty", []string{}, []string{}, "/bin/echo entry command"},
		{"args", nil, []string{"x", "y"}, "/bin/echo entry x y"},
		{"command", []string{"/bin/printf", "z"}, nil, "/bin/printf z"},
		{"both", []string{"/bin/printf"}, []string{"z"}, "/bin/printf z"},
	}
	for _, test := range tests {
		spec := b.spec(box, test.name)
		spec.Image, spec.ImageID = "localhost/commanded:latest", strings.TrimPrefix(image, "sha256:")
		spec.Command, spec.Args = test.command, test.args
		c, err := b.driver.CreateContainer(b.Context(), spec)
		b.must(err)
		if got := b.podman("inspect", "--format", "{{.Path}} {{range .Args}}{{.}} {{end}}", c.ID); strings.TrimSpace(got) != test.want {
			b.Errorf("%s: runs %q, want %q", test.name, got, test.want)
		}
	}
}

func settings(b *bench) {
	box := b.start()
	dir := b.TempDir()
	want := b.spec(box, "a", "/bin/sh", "-c", "echo $GREETING > /mnt/out; echo no > /fixed/out; touch /mnt/done; sleep 1000")
	want.Env = []pod.EnvVar{{Name: "GREETING", Value: "a=b c"}}
	want.Mounts = []pod.Mount{{HostPath: dir, ContainerPath: "/mnt"}, {HostPath: dir, ContainerPath: "/fixed", ReadOnly: true}}
	want.Resources = pod.Resources{CPUShares: 512, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryLimit: 64 << 20}
	want.Annotations = map[string]string{"example.com/note": "kept", "io.podman.annotations.autoremove": "TRUE"}
	want.StopTimeout = 7 * time.Second
	c := b.run(want)
	for format, value := range map[string]string{
		`{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}`:                                     "67108864 67108864",
		`{{.HostConfig.CpuShares}} {{.HostConfig.CpuQuota}} {{.HostConfig.CpuPeriod}}`:          "512 50000 100000",
		`{{.HostConfig.PidsLimit}} {{.HostConfig.RestartPolicy.Name}} {{.HostConfig.Init}}`:     "-1 no false",
		`{{.HostConfig.AutoRemove}} {{index .Config.Annotations "example.com/note"}}`:           "false kept",
		`{{.Config.StopTimeout}} {{.HostConfig.LogConfig.Type}} {{.HostConfig.LogConfig.Size}}`: "7 k8s-file 10.49MB",
	} {
		if got := b.podman("inspect", "--format", format, c.ID); got != value {
			b.Errorf("%s: %q, want %q", format, got, value)
		}
	}
	const whenDone = "until [ -e /mnt/done ]; do sleep 0.1; done; cd /sys/fs/cgroup; cat pids/pids.max 2>/dev/null || cat pids.max"
	if limit := b.podman("exec", c.ID, "/bin/sh", "-c", whenDone); limit != "max" {
		b.Errorf("at most %s processes", limit)
	}
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil || string(out) != "a=b c\n" {
		b.Errorf("it wrote %q (%v)", out, err)
	}
	log, err := os.Open(c.LogPath)
	b.must(err)
	said, err := io.ReadAll(log)
	b.must(errors.Join(err, log.Close()))
	if !strings.Contains(string(said), "Read-only file system") {
		b.Errorf("it said %q", said)
	}
}

func sideBySide(b *bench) {
	const grace = 5 * time.Second
	box := b.start()
	for _, name := range []string{"a", "b", "c"} {
		b.run(b.spec(box, name, b.Command(name, runtimetest.Script{IgnoreTERM: true})...))
	}
	begun := time.Now()
	b.must(b.driver.RemoveSandbox(b.Context(), box.ID, grace))
	if took := time.Since(begun); took < grace || took > 2*grace+grace/2 {
		b.Errorf("three graces of %s took %s", grace, took)
	}
}

// endTold: the first word of an end comes from the kernel, before Podman has
// cleaned up; an inspection after that must not find the container running.
func endTold(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	died := make(chan pod.RuntimeEvent, 8)
	open, closed := make(chan struct{}), make(chan error, 1)
	go func() {
		closed <- b.driver.Events(ctx, time.Time{}, func() { close(open) }, func(e pod.RuntimeEvent) {
			if e.Kind == pod.EventDied {
				died <- e
			}
		})
	}()
	defer func() {
		cancel()
		if err := <-closed; !errors.Is(err, context.Canceled) {
			b.Errorf("the stream of events ended with %v", err)
		}
	}()
	<-open
	for range 5 {
		c := b.run(b.spec(b.start(), "a", "/bin/sleep", "1000"))
		b.must(syscall.Kill(c.PID, syscall.SIGKILL))
		for e := range died {
			if e.ID == c.ID {
				break
			}
		}
		now, err := b.driver.InspectContainer(b.Context(), c.ID)
		b.must(err)
		if now.State != pod.RunExited || now.ExitCode != 137 || now.FinishedAt.IsZero() {
			b.Errorf("told of its end, it is found %s with code %d, finished %s", now.State, now.ExitCode, now.FinishedAt)
		}
		b.must(b.driver.RemoveContainer(b.Context(), c.ID))
	}
}

// unmonitored: without its monitor Podman takes a container to run for ever.
func unmonitored(b *bench) {
	box := b.start()
	c := b.run(b.spec(box, "a", "/bin/sleep", "1000"))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID))
	b.must(err)
	monitor, err := strconv.Atoi(strings.Fields(string(status[strings.LastIndexByte(string(status), ')')+1:]))[1]) // the parent: proc(5)
	b.must(err)
	b.must(syscall.Kill(monitor, syscall.SIGKILL))
	b.must(syscall.Kill(c.PID, syscall.SIGKILL))
	for deadline := time.Now().Add(time.Minute); ; {
		now, err := b.driver.InspectContainer(b.Context(), c.ID)
		b.must(err)
		_, listed, err := b.driver.List(b.Context())
		b.must(err)
		i := slices.IndexFunc(listed, func(l pod.Container) bool { return l.ID == c.ID })
		if now.State == pod.RunExited {
			if now.ExitCode != 137 || now.EndDetail == "" || now.FinishedAt.IsZero() || listed[i].State != pod.RunExited {
				b.Errorf("it ended as %#v, and is listed as %#v", now, listed[i])
			}
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("it is still %s", now.State)
		}
		time.Sleep(200 * time.Millisecond)
	}
	b.must(b.driver.RemoveContainer(b.Context(), c.ID))
	b.must(b.driver.RemoveSandbox(b.Context(), box.ID, 0))
}

// ungrouped: a process may leave its container's control groups, and containers.conf
// turn them off. It must not be taken to have ended.
func ungrouped(b *bench) {
	box := b.start()
	c := b.run(b.spec(box, "a", "/bin/sleep", "1000"))
	roots, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs") // cgroups v1
	b.must(err)
	for _, root := range append(roots, "/sys/fs/cgroup/cgroup.procs") {
		if _, err := os.Stat(root); err == nil {
			b.must(os.WriteFile(root, []byte(strconv.Itoa(c.PID)), 0))
		}
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.PID))
	b.must(err)
	if strings.Contains(string(groups), c.ID) {
		b.Fatalf("it is in its control groups:\n%s", groups)
	}
	next := newDriver(b.T, b.host.URL) // which has not seen it start
	died, subscribed, ended := make(chan struct{}, 8), make(chan struct{}), make(chan error)
	ctx, cancel := context.WithCancel(b.Context())
	go func() {
		ended <- next.Events(ctx, time.Now(), func() { close(subscribed) }, func(e pod.RuntimeEvent) {
			if e.Kind == pod.EventDied && e.ID == c.ID {
				died <- struct{}{}
			}
		})
	}()
	<-subscribed
	now, err := next.InspectContainer(b.Context(), c.ID)
	b.must(err)
	if now.State != pod.RunRunning || len(died) > 0 {
		b.Fatalf("it is %s, and %d ends were told", now.State, len(died))
	}
	b.must(syscall.Kill(c.PID, syscall.SIGKILL))
	<-died
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
	b.must(b.driver.RemoveContainer(b.Context(), c.ID))
	b.must(b.driver.RemoveSandbox(b.Context(), box.ID, 0))
}
