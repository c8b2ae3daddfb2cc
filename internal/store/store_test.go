package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		submitForEver(path)
	}
	// Each check takes dozens of commits; -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// restoreManifest decodes and defaults as far as these tests need it.
func restoreManifest(data []byte) (*corev1.Pod, error) {
	var p corev1.Pod
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if p.Spec.TerminationGracePeriodSeconds == nil {
		seconds := int64(30)
		p.Spec.TerminationGracePeriodSeconds = &seconds
	}
	return &p, nil
}

// stateEdge names a transition after the states it goes between.
func stateEdge(_ pod.Transition, old, updated *pod.Container) []pod.Transition {
	tr := pod.Transition{Event: "change", Cause: pod.CauseAgent}
	if old != nil {
		tr.From = string(old.State)
	}
	if updated != nil {
		tr.To, tr.Cause, tr.Detail = string(updated.State), updated.EndCause, updated.EndDetail
	}
	if tr.From == tr.To {
		return nil
	}
	return []pod.Transition{tr}
}

func testOptions(dir string) Options {
	return Options{
		Path: filepath.Join(dir, "podstead.db"), BackupPath: filepath.Join(dir, "backup.db"),
		NodeID: "node-1", BootID: "boot-1", Restore: restoreManifest, ContainerEdge: stateEdge,
	}
}

func mustOpen(t testing.TB, o Options) (*Store, OpenReport) {
	t.Helper()
	s, report, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if o.Now != nil {
		s.order.now = o.Now
	}
	return s, report
}

// newStore opens a store that is closed at the end of the test.
func newStore(t testing.TB) (*Store, *clock) {
	t.Helper()
	c := newClock()
	o := testOptions(t.TempDir())
	o.Now = c.Now
	s, _ := mustOpen(t, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

var (
	dirA    = pod.Source{ID: "directory:/a", Kind: pod.SourceDirectory, Location: "/a"}
	dirB    = pod.Source{ID: "directory:/b", Kind: pod.SourceDirectory, Location: "/b"}
	httpSrc = pod.Source{ID: "http", Kind: pod.SourceHTTP}
)

type option func(*corev1.Pod)

// submission is a pod of one container "main", in the unit name.yaml.
func submission(name string, opts ...option) pod.Submission {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox"}}
	for _, o := range opts {
		o(&p)
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	restored, err := restoreManifest(data)
	if err != nil {
		panic(err)
	}
	h := sha256.Sum256(data)
	return pod.Submission{Pod: restored, Manifest: data, Hash: hex.EncodeToString(h[:]), Unit: name + ".yaml", Place: name + ".yaml"}
}

func withImage(container, image string) option {
	return func(p *corev1.Pod) {
		for i := range p.Spec.Containers {
			if p.Spec.Containers[i].Name == container {
				p.Spec.Containers[i].Image = image
				return
			}
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: container, Image: image})
	}
}

func withInit(name, image string) option {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, Image: image})
	}
}

func withHostNetwork(p *corev1.Pod) { p.Spec.HostNetwork = true }

func withPolicy(policy corev1.RestartPolicy) option {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

func in(unit string, s pod.Submission) pod.Submission {
	s.Unit, s.Place = unit, unit
	return s
}

func set(pods ...pod.Submission) pod.SourceSet { return pod.SourceSet{Pods: pods} }

func key(name string) pod.Key { return pod.Key{Namespace: "default", Name: name} }

func mustSync(t testing.TB, s *Store, src pod.Source, set pod.SourceSet) pod.SyncResult {
	t.Helper()
	r, err := s.SyncSource(context.Background(), src, set)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustSubmit(t testing.TB, s *Store, subs ...pod.Submission) pod.SyncResult {
	t.Helper()
	r, err := s.Submit(context.Background(), httpSrc, subs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustObserve(t testing.TB, s *Store, f pod.Facts) {
	t.Helper()
	if err := s.Observe(context.Background(), f); err != nil {
		t.Fatal(err)
	}
}

func mustCommit(t testing.TB, s *Store, r pod.Record) {
	t.Helper()
	if err := s.Commit(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

// uidsOf lists the pods of that name, the wanted one first.
func uidsOf(t testing.TB, s *Store, name string) []types.UID {
	t.Helper()
	var uids []types.UID
	err := s.Read(context.Background(), func(tx *ReadTx) error {
		return tx.Select(&uids, `SELECT uid FROM desired_pods WHERE name = ? ORDER BY deletion_requested_at IS NULL DESC, deletion_requested_at DESC`, name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return uids
}

// load is the snapshot of the pod of that name, the wanted one if there are
// several.
func load(t testing.TB, s *Store, name string) pod.Snapshot {
	t.Helper()
	uids := uidsOf(t, s, name)
	if len(uids) == 0 {
		t.Fatalf("no pod %s", name)
	}
	snap, err := s.Load(context.Background(), uids[0])
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func recordFor(snap pod.Snapshot) pod.Record {
	d := snap.Desired
	return pod.Record{Key: d.Key, UID: d.UID, Generation: d.Generation, Deleting: d.Deletion != nil}
}

func revisions(d pod.Desired) string {
	text := fmt.Sprintf("g%d r%d", d.Generation, d.Revision/revisionStep)
	for _, c := range d.Containers {
		text += fmt.Sprintf(" %s:%d", c.Name, c.Revision/revisionStep)
	}
	return text
}

// writes counts the rows ever written through the store.
func writes(t testing.TB, s *Store) int {
	t.Helper()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	var n int
	if err := s.writer.raw.GetContext(context.Background(), &n, `SELECT total_changes()`); err != nil {
		t.Fatal(err)
	}
	return n
}

// unwritten fails if fn wrote anything.
func unwritten(t testing.TB, s *Store, what string, fn func()) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(s.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	rows, wal := writes(t, s), size()
	fn()
	if n := writes(t, s) - rows; n != 0 {
		t.Errorf("%s wrote %d rows", what, n)
	}
	if grown := size() - wal; grown != 0 {
		t.Errorf("%s grew the write-ahead log by %d bytes", what, grown)
	}
}

// heard collects what OnCommit was told.
func heard(s *Store) func() []types.UID {
	var mu sync.Mutex
	var uids []types.UID
	s.OnCommit(func(c pod.Changes) {
		mu.Lock()
		defer mu.Unlock()
		uids = append(uids, c.Pods...)
	})
	return func() []types.UID {
		mu.Lock()
		defer mu.Unlock()
		out := slices.Clone(uids)
		uids = nil
		return out
	}
}

func wantClass(t testing.TB, err error, class pod.Class, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want class %s", class)
	}
	if !errors.Is(err, class) {
		t.Fatalf("class %s, want %s: %v", pod.ClassOf(err), class, err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error does not say %q: %v", p, err)
		}
	}
}

// query reads one column of text.
func query(t testing.TB, s *Store, q string, args ...any) []string {
	t.Helper()
	var out []string
	if err := s.Read(context.Background(), func(tx *ReadTx) error { return tx.Select(&out, q, args...) }); err != nil {
		t.Fatal(err)
	}
	return out
}
