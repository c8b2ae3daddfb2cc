package introspect

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/store"
)

var update = flag.Bool("update", false, "write web/docs/cookbook.md anew")

const webManifest = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: nginx, image: nginx, ports: [{containerPort: 80, hostPort: 8080}], volumeMounts: [{name: site, mountPath: /srv}]}
  - {name: log, image: busybox, resources: {limits: {memory: 16Mi}}}
  volumes: [{name: site, hostPath: {path: /var/www}}]
`

// lived is a store in which things have happened: a pod that runs after one of
// its containers was killed for memory, one that is gone, one that is being
// deleted, one that was refused, and an image that nothing asks for.
type lived struct {
	*store.Store
	t *testing.T
}

var (
	files  = pod.Source{ID: "directory:/etc/podstead/manifests", Kind: pod.SourceDirectory, Location: "/etc/podstead/manifests"}
	remote = pod.Source{ID: "url:https://example.com/pods", Kind: pod.SourceURL, Location: "https://example.com/pods"}
)

func newLived(t *testing.T) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "podstead.db")
	s, _, err := store.Open(t.Context(), store.Options{Path: path, BootID: "b", Restore: manifest.Restore, ContainerEdge: lifecycle.ContainerEdge})
	if err != nil {
		t.Fatal(err)
	}
	l := lived{s, t}
	t.Cleanup(func() { l.must(s.Close()) })
	l.sync(files, "web.yaml", webManifest)
	l.sync(remote, "pods", strings.ReplaceAll(webManifest, "web", "old"))
	l.sync(remote, "pods", "# none\n")
	l.forget("old")
	l.sync(remote, "pods", strings.ReplaceAll(webManifest, "name: web", "name: going"))
	l.sync(remote, "pods", "# none\n")
	l.web()
	l.sync(files, "web.yaml", strings.Replace(webManifest, "image: nginx", "imagee: nginx", 1))
	l.must(s.ObserveImages(t.Context(), []pod.Image{
		{ID: "aa", Names: []string{"docker.io/library/nginx:latest"}, SizeBytes: 1000}, {ID: "bb", Names: []string{"docker.io/library/unused:1"}, SizeBytes: 2000},
	}))
	e, err := New(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.must(e.Close()) })
	return e
}

func (l lived) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l lived) sync(src pod.Source, unit, text string) {
	l.t.Helper()
	set := manifest.Parser{NodeName: "n"}.Parse(unit, []byte(text), pod.SourceHTTP) // no suffix, for readers' sake
	_, err := l.SyncSource(l.t.Context(), src, set)
	l.must(err)
}

func (l lived) pod(name string) pod.Desired {
	l.t.Helper()
	d, err := l.Pod(l.t.Context(), pod.Key{Namespace: "default", Name: name})
	l.must(err)
	return d
}

func transition(d pod.Desired, container, from, event, to string, cause pod.Cause, detail string) pod.Transition {
	machine := pod.MachinePod
	if container != "" {
		machine = pod.MachineContainer
	}
	return pod.Transition{Key: d.Key, UID: d.UID, Container: container, Machine: machine, From: from, Event: event, To: to, Cause: cause, Detail: detail, Generation: 1}
}

func (l lived) commit(d pod.Desired, r pod.Record) {
	l.t.Helper()
	r.Key, r.UID, r.Generation, r.Deleting = d.Key, d.UID, d.Generation, d.Deletion != nil
	l.must(l.Commit(l.t.Context(), r))
}

func (l lived) forget(name string) {
	l.t.Helper()
	d := l.pod(name)
	l.commit(d, pod.Record{Forget: true, Transitions: []pod.Transition{
		transition(d, "", "", "delete", "Terminating", pod.CauseSource, "it was removed"),
		transition(d, "", "Terminating", "forget", "Gone", pod.CauseSource, "it was removed"),
	}})
}

func (l lived) web() {
	l.t.Helper()
	d, now := l.pod("web"), time.Now()
	l.commit(d, pod.Record{
		State: pod.StateRunning,
		Status: &corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.88.0.9", ContainerStatuses: []corev1.ContainerStatus{
			{Name: "nginx", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}},
			{Name: "log", RestartCount: 1},
		}},
		Transitions: []pod.Transition{
			transition(d, "", "", "submit", "Pending", pod.CauseSource, "web.yaml"),
			transition(d, "log", "Running", "exit", "Terminated", pod.CauseOOM, "exit code 137"),
		},
		Events:   []pod.Event{{Type: corev1.EventTypeWarning, Reason: "BackOff", Message: "restarting in 10s", Container: "log"}},
		Attempts: map[string]int{"nginx": 0, "log": 1},
		Backoffs: []pod.Backoff{{Container: "log", Kind: pod.BackoffCrash, Failures: 1, Until: now.Add(10 * time.Second), LastAt: now, Reason: "CrashLoopBackOff", Message: "exit code 137"}},
	})
	box := pod.Sandbox{Key: d.Key, UID: d.UID, ID: "s", InfraID: "i", Name: "k8s_web", Revision: d.Revision, State: pod.RunRunning, StartedAt: now}
	container := func(name string, state pod.RunState, pid int) pod.Container {
		return pod.Container{Key: d.Key, UID: d.UID, Container: name, Kind: pod.KindContainer, ID: name, Name: "k8s_" + name, SandboxID: "s", Revision: d.Containers[0].Revision, State: state, PID: pid, ImageID: "aa", StartedAt: now}
	}
	dead := container("log", pod.RunExited, 0)
	dead.ExitCode, dead.OOMKilled, dead.FinishedAt = 137, true, now.Add(time.Second)
	l.must(l.Observe(l.t.Context(), pod.Facts{Sandboxes: []pod.Sandbox{box}, Containers: []pod.Container{container("nginx", pod.RunRunning, 4242), dead}}))
}

// examples are the questions and queries of schema/examples.sql.
func examples(t *testing.T) [][2]string {
	t.Helper()
	data, err := os.ReadFile("../../schema/examples.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(strings.TrimSpace(string(data)), "\n\n")
	var list [][2]string
	for example := range strings.SplitSeq(text, "\n\n") {
		question, query, _ := strings.Cut(strings.TrimPrefix(example, "-- "), "\n")
		list = append(list, [2]string{question, query})
	}
	return list
}

// The examples are documentation: each answers its question with rows, whose
// columns have names.
func TestExamples(t *testing.T) {
	e := newLived(t)
	list := examples(t)
	if len(list) < 20 {
		t.Errorf("%d examples", len(list))
	}
	for _, example := range list {
		question, query := example[0], example[1]
		if !strings.Contains(question, "?") {
			t.Errorf("no question: %s", question)
		}
		r := mustQuery(t, e, query)
		if len(r.Rows) == 0 {
			t.Errorf("%s: no rows", question)
		}
		for _, c := range r.Columns {
			if strings.ContainsAny(c, "( ") {
				t.Errorf("%s: column %q", question, c)
			}
		}
	}
}

const cookbookHead = `# SQL cookbook

Questions that people ask, as queries for ` + "`podstead sql`" + `; [sql.md](sql.md) says what can be asked and how. The same queries are in ` + "`schema/examples.sql`" + `, and each is run by a test.
`

// The cookbook is made of the examples.
func TestCookbook(t *testing.T) {
	var b strings.Builder
	b.WriteString(cookbookHead)
	for _, example := range examples(t) {
		b.WriteString("\n## " + example[0] + "\n\n```\n" + strings.TrimSpace(example[1]) + "\n```\n")
	}
	const path = "../../web/docs/cookbook.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.String() {
		t.Errorf("%s is not what schema/examples.sql says; run: go test -run TestCookbook ./internal/introspect -update", path)
	}
}
