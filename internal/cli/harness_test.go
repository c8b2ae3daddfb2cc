package cli_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/cli"
	"podstead.io/podstead/internal/introspect"
	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/store"
	"podstead.io/podstead/internal/version"
	"podstead.io/podstead/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files anew")

const node = "cabinet-7"

// noon is when everything in these tests happens; the client's clock stands five
// minutes later.
var noon = time.Date(2020, 12, 1, 12, 0, 0, 0, time.UTC)

var directory = pod.Source{ID: "directory:/etc/podstead/manifests", Kind: pod.SourceDirectory, Location: "/etc/podstead/manifests"}

// agent is the real store behind the real handler on a real socket.
type agent struct {
	t      *testing.T
	store  *store.Store
	socket string
	ready  error
	stop   func()
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{t: t, socket: filepath.Join(t.TempDir(), "s")}
	path := filepath.Join(t.TempDir(), "podstead.db")
	tick := 0
	var err error
	a.store, _, err = store.Open(t.Context(), store.Options{
		Path: path, BootID: "b", Restore: manifest.Restore, ContainerEdge: lifecycle.ContainerEdge,
		Now: func() time.Time { tick++; return noon.Add(time.Duration(tick) * time.Second) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.Configure(t.Context(), []pod.Source{api.Source, directory}); err != nil {
		t.Fatal(err)
	}
	engine, err := introspect.New(introspect.Options{Path: path, Limits: introspect.Limits{Rows: 500}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := api.Listen(a.socket, -1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	log := slog.New(slog.DiscardHandler)
	handler := api.New(api.Options{
		Log: log, Version: version.Get(), Agent: wire.Agent{Node: node, RootDir: filepath.Dir(path), PodmanURL: "unix:///nonexistent/podman.sock"},
		Ready:  []api.Check{{Name: "podman", Run: func(context.Context) error { return a.ready }}},
		Parser: manifest.Parser{NodeName: node}, Pods: a.store, Sink: a.store, SQL: queries{engine},
	})
	go func() { served <- api.Serve(ctx, l, handler, log) }()
	a.stop = func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		served <- nil
	}
	t.Cleanup(func() {
		a.stop()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		if err := a.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// queries gives the engine the shape that the API declares.
type queries struct{ engine *introspect.Engine }

func (q queries) Query(ctx context.Context, text string, args ...any) (wire.Rows, error) {
	r, err := q.engine.Query(ctx, text, args...)
	return wire.Rows(r), err
}

// output is what a command line came to.
type output struct {
	stdout, stderr string
	code           int
}

func (a *agent) run(args ...string) output { return a.runWith("", args...) }

func (a *agent) runWith(stdin string, args ...string) output {
	a.t.Helper()
	return run(a.t.Context(), stdin, map[string]string{wire.SocketVariable: a.socket}, args...)
}

func run(ctx context.Context, stdin string, env map[string]string, args ...string) output {
	var stdout, stderr bytes.Buffer
	code := cli.Run(ctx, cli.Env{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) string { return env[name] },
		Now:    func() time.Time { return noon.Add(5 * time.Minute) },
	}, args)
	return output{stdout: stdout.String(), stderr: stderr.String(), code: code}
}

// must runs a command line that has to succeed and returns what it printed.
func (a *agent) must(args ...string) string {
	a.t.Helper()
	o := a.run(args...)
	if o.code != 0 || o.stderr != "" {
		a.t.Fatalf("podstead %s: status %d\n%s%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// drop makes the directory hold the file alone.
func (a *agent) drop(file, text string) {
	a.t.Helper()
	set := manifest.Parser{NodeName: node}.Parse(file, []byte(text), pod.SourceDirectory)
	if _, err := a.store.SyncSource(a.t.Context(), directory, set); err != nil {
		a.t.Fatal(err)
	}
}

// pod is a desired pod as it stands.
func (a *agent) pod(name string) pod.Desired {
	a.t.Helper()
	d, err := a.store.Pod(a.t.Context(), pod.Key{Namespace: "default", Name: name})
	if err != nil {
		a.t.Fatal(err)
	}
	return d
}

func (a *agent) commit(d pod.Desired, r pod.Record) {
	a.t.Helper()
	r.Key, r.UID, r.Generation, r.Deleting = d.Key, d.UID, d.Generation, d.Deletion != nil
	if err := a.store.Commit(a.t.Context(), r); err != nil {
		a.t.Fatal(err)
	}
}

// web is a pod from a file that runs after one of its containers was killed for
// memory, and the edit of which was refused.
func (a *agent) web() {
	a.t.Helper()
	a.drop("web.yaml", webManifest)
	d := a.pod("web-" + node)
	start := metav1.NewTime(noon.Add(time.Minute))
	statuses := []corev1.ContainerStatus{
		{Name: "nginx", Ready: true, ContainerID: "podman://1111", Image: "docker.io/library/nginx:latest", ImageID: "sha256:aa", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}},
		{Name: "log-truncator", RestartCount: 1, ContainerID: "podman://2222",
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: start, FinishedAt: metav1.NewTime(noon.Add(2 * time.Minute))}}},
	}
	trans := func(container, from, event, to string, cause pod.Cause, detail string, attempt int) pod.Transition {
		machine := pod.MachineContainer
		if container == "" {
			machine = pod.MachinePod
		}
		return pod.Transition{Key: d.Key, UID: d.UID, Container: container, Machine: machine, From: from, Event: event, To: to, Cause: cause, Detail: detail, Generation: 1, Attempt: attempt}
	}
	a.commit(d, pod.Record{
		State: pod.StateRunning,
		Status: &corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.88.0.9", PodIPs: []corev1.PodIP{{IP: "10.88.0.9"}}, StartTime: &start, QOSClass: corev1.PodQOSBurstable,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}},
			ContainerStatuses: statuses,
		},
		Transitions: []pod.Transition{
			trans("", "", "submit", "Pending", pod.CauseSource, "web.yaml", 0),
			trans("nginx", "", "submit", "Waiting", pod.CauseSource, "web.yaml", 0),
			trans("nginx", "Waiting", "start", "Running", pod.CauseSource, "", 0),
			trans("", "Pending", "run", "Running", pod.CauseSource, "container nginx runs", 0),
			trans("log-truncator", "Running", "exit", "Terminated", pod.CauseOOM, "exit code 137", 0),
			trans("log-truncator", "Terminated", "restart", "Waiting", pod.CauseOOM, "exit code 137", 1),
		},
		Events: []pod.Event{
			{Type: corev1.EventTypeNormal, Reason: "Pulled", Message: "image present", Container: "nginx"},
			{Type: corev1.EventTypeWarning, Reason: "BackOff", Message: "restarting\x1b[31m in 10s", Container: "log-truncator"},
		},
		Attempts: map[string]int{"nginx": 0, "log-truncator": 1},
		Backoffs: []pod.Backoff{{Container: "log-truncator", Kind: pod.BackoffCrash, Failures: 1, Until: noon.Add(10 * time.Minute), LastAt: noon, Reason: "CrashLoopBackOff"}},
	})
	box := pod.Sandbox{Key: d.Key, UID: d.UID, ID: "b0", InfraID: "i0", Name: "k8s_web", Revision: d.Revision, State: pod.RunRunning, IPs: []string{"10.88.0.9"}, StartedAt: noon}
	container := func(name, id string, state pod.RunState) pod.Container {
		return pod.Container{Key: d.Key, UID: d.UID, Container: name, Kind: pod.KindContainer, ID: id, Name: name, SandboxID: "b0", Revision: d.Containers[0].Revision, State: state, StartedAt: noon.Add(time.Minute)}
	}
	dead := container("log-truncator", "2222", pod.RunExited)
	dead.ExitCode, dead.OOMKilled, dead.FinishedAt = 137, true, noon.Add(2*time.Minute)
	facts := pod.Facts{Sandboxes: []pod.Sandbox{box}, Containers: []pod.Container{container("nginx", "1111", pod.RunRunning), dead}}
	if err := a.store.Observe(a.t.Context(), facts); err != nil {
		a.t.Fatal(err)
	}
	a.drop("web.yaml", strings.Replace(webManifest, "image: busybox", "imagee: busybox", 1))
}

const webManifest = `apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
  - name: nginx
    image: nginx
    ports: [{containerPort: 80, hostPort: 8080}]
    env: [{name: COLOUR, value: blue}]
    volumeMounts: [{name: logs, mountPath: /var/log/nginx}]
  - name: log-truncator
    image: busybox
    command: [/bin/sh]
    args: [-c, 'sleep 10']
    resources: {limits: {memory: 16Mi}}
    volumeMounts: [{name: logs, mountPath: /logdir, readOnly: true}]
  volumes:
  - name: logs
    emptyDir: {}
`

func podManifest(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  containers:\n  - name: c\n    image: busybox\n"
}

// testdata is absolute, for tests that change directory.
var testdata = func() string {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	return dir
}()

// golden compares text with testdata/name.golden.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(testdata, name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", name, text, want)
	}
}

var (
	uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ages = regexp.MustCompile(`\b([0-9]+[smhdy]){1,2}\b( ago)?`)
	gaps = regexp.MustCompile(` {2,}`)
)

// steady takes out what differs from run to run: UIDs, and the ages that the
// agent's table has, with the widths that follow from them.
func steady(text string) string {
	text = uids.ReplaceAllString(text, "<uid>")
	text = ages.ReplaceAllString(text, "<age>")
	return gaps.ReplaceAllString(text, "  ")
}
