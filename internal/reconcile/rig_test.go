package reconcile_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/observe"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/reconcile"
	"podstead.io/podstead/internal/runtimetest"
	"podstead.io/podstead/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	busybox = "docker.io/library/busybox:latest"
	nginx   = "docker.io/library/nginx:latest"
)

var overHTTP = pod.Source{ID: "http", Kind: pod.SourceHTTP}

// rig is a loop over a real store and a runtime in memory, all in one bubble of
// fake time.
type rig struct {
	*testing.T
	path  string
	store *store.Store
	watch *watchedStore
	fake  *runtimetest.Fake
	loop  *reconcile.Loop
	stop  func()
	// observe also follows the runtime's events.
	observe bool
	boot    string
	restore func([]byte) (*corev1.Pod, error)
	// jump is how far the wall clock is from where it would be.
	jump atomic.Int64
}

// now is the wall clock of the agent and of the runtime.
func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.jump.Load())) }

// inBubble runs a test on a rig whose loop runs.
func inBubble(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		test(r)
	})
}

// observed is inBubble with an observer.
func observed(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.observe = true
		r.start()
		test(r)
	})
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, path: filepath.Join(t.TempDir(), "podstead.db"), boot: "boot-1", restore: manifest.Restore, stop: func() {}}
	r.fake = runtimetest.New(runtimetest.Options{Node: "node-1", Latency: runtimetest.PodmanLatency, Now: r.now})
	r.fake.Images().Add(busybox)
	r.fake.Images().Add(nginx)
	r.openStore()
	t.Cleanup(func() {
		r.stop()
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
		r.fake.Close()
		if v := r.fake.Violations(); len(v) > 0 {
			t.Errorf("two of one container at a time: %v", v)
		}
	})
	return r
}

func (r *rig) openStore() {
	r.Helper()
	s, _, err := store.Open(r.Context(), store.Options{
		Path: r.path, NodeID: "node-1", BootID: r.boot, Restore: r.restore, ContainerEdge: lifecycle.ContainerEdge, Now: r.now,
		NormalizeImage: func(name string) string {
			full, err := pod.NormalizeImage(name)
			if err != nil {
				r.Error(err)
			}
			return full
		},
	})
	r.must(err)
	r.must(s.Configure(r.Context(), []pod.Source{overHTTP}))
	r.store, r.watch = s, &watchedStore{Store: s}
	s.OnCommit(func(c pod.Changes) {
		if r.loop != nil {
			r.loop.Wake(c.Pods...)
		}
	})
}

// start runs a new loop, as a new agent does; stop ends it and waits for that.
func (r *rig) start() {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	if r.observe {
		o := observe.New(observe.Options{
			Runtime: r.fake, Store: r.store, Log: slog.New(slog.DiscardHandler), Relist: time.Minute, Rebooted: r.store.Rebooted,
		})
		running.Go(func() { r.check(o.Run(ctx)) })
		<-o.Synced()
	}
	r.loop = reconcile.New(reconcile.Options{
		Store: r.watch, Runtime: r.fake, Images: r.fake.Images(), Volumes: r.fake.Volumes(), Node: "node-1",
		HostIPs: func() []string { return []string{"192.0.2.1"} }, Log: slog.New(slog.DiscardHandler), Now: r.now,
	})
	running.Go(func() { r.check(r.loop.Run(ctx)) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	synctest.Wait()
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

// pass lets time pass, and whatever is due then come to rest.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// podOf is a pod whose containers run busybox; a name that starts with "init"
// is that of an init container.
func podOf(name string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)},
	}
	for _, c := range containers {
		container := corev1.Container{Name: c, Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent}
		if len(c) > 4 && c[:4] == "init" {
			p.Spec.InitContainers = append(p.Spec.InitContainers, container)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, container)
		}
	}
	return p
}

// submit wants the pod and returns its UID.
func (r *rig) submit(p *corev1.Pod) types.UID {
	r.Helper()
	data, err := json.Marshal(p)
	r.must(err)
	set := manifest.Parser{NodeName: "node-1"}.Parse("request", data, overHTTP.Kind)
	if len(set.Rejections) > 0 {
		r.Fatalf("rejected: %+v", set.Rejections)
	}
	_, err = r.store.Submit(r.Context(), overHTTP, set.Pods)
	r.must(err)
	d, err := r.store.Pod(r.Context(), pod.Key{Namespace: p.Namespace, Name: p.Name})
	r.must(err)
	return d.UID
}

// withdraw wants the pod no more; grace nil: its own.
func (r *rig) withdraw(name string, grace *time.Duration) {
	r.Helper()
	r.must(r.store.Withdraw(r.Context(), overHTTP, pod.Key{Namespace: "default", Name: name}, grace))
}

func (r *rig) load(uid types.UID) pod.Snapshot {
	r.Helper()
	snap, err := r.store.Load(r.Context(), uid)
	r.must(err)
	return snap
}

// runs fails unless exactly the named containers of the pod are live, each in
// the network of its sandbox, and the store says so too.
func (r *rig) runs(uid types.UID, names ...string) map[string]pod.Container {
	r.Helper()
	live := map[string]pod.Container{}
	for _, c := range r.fake.Live(uid, "") {
		if _, twice := live[c.Container]; twice {
			r.Errorf("two live containers %s", c.Container)
		}
		if !r.fake.Connected(c.ID) {
			r.Errorf("container %s has no network", c.Name)
		}
		live[c.Container] = c
	}
	if len(live) != len(names) || slices.ContainsFunc(names, func(n string) bool { return live[n].ID == "" }) {
		r.Fatalf("live: %v; want %v", live, names)
	}
	for _, c := range r.load(uid).Observed.Containers {
		if c.State.Live() != (live[c.Container].ID == c.ID) {
			r.Errorf("the store has %s as %s", c.Name, c.State)
		}
	}
	return live
}

func (r *rig) wantState(uid types.UID, state pod.State) {
	r.Helper()
	if got := r.load(uid).Desired.State; got != state {
		r.Errorf("pod is %q; want %q", got, state)
	}
}

// gone fails unless nothing is left of the pod.
func (r *rig) gone(uid types.UID) {
	r.Helper()
	if _, err := r.store.Load(r.Context(), uid); pod.ClassOf(err) != pod.NotFound {
		r.Errorf("the store still has the pod: %v", err)
	}
	for _, b := range r.fake.Sandboxes() {
		if b.UID == uid {
			r.Errorf("sandbox %s is left", b.Name)
		}
	}
	for _, c := range r.fake.Containers() {
		if c.UID == uid {
			r.Errorf("container %s is left", c.Name)
		}
	}
	if slices.Contains(r.fake.Volumes().Left(), string(uid)) {
		r.Errorf("volumes are left")
	}
}

// row is one row of history.
type row struct {
	Container string    `db:"container"`
	Event     string    `db:"event"`
	Cause     pod.Cause `db:"cause"`
	Detail    string    `db:"detail"`
	Attempt   int       `db:"attempt"`
}

// history are the transitions of a container, of the pod if it is empty.
func (r *rig) history(uid types.UID, container string) (rows []row) {
	r.Helper()
	r.must(r.store.Read(r.Context(), func(t *store.ReadTx) error {
		return t.Select(&rows, `SELECT container, event, cause, detail, attempt FROM transitions WHERE pod_uid = ? AND container = ? ORDER BY rowid`, uid, container)
	}))
	return rows
}

// wantHistory compares events with their causes: "exit/user".
func (r *rig) wantHistory(uid types.UID, container string, want ...string) {
	r.Helper()
	var got []string
	for _, h := range r.history(uid, container) {
		got = append(got, h.Event+"/"+string(h.Cause))
	}
	if !slices.Equal(got, want) {
		r.Errorf("history of %q:\n got %q\nwant %q", container, got, want)
	}
}

// eventRow is one Kubernetes event.
type eventRow struct {
	Type    string `db:"type"`
	Reason  string `db:"reason"`
	Message string `db:"message"`
	Count   int    `db:"count"`
}

func (r *rig) events(uid types.UID, reason string) (rows []eventRow) {
	r.Helper()
	r.must(r.store.Read(r.Context(), func(t *store.ReadTx) error {
		return t.Select(&rows, `SELECT type, reason, message, count FROM events WHERE pod_uid = ? AND reason = ? ORDER BY rowid`, uid, reason)
	}))
	return rows
}

func (r *rig) backoff(uid types.UID, container string, kind pod.BackoffKind) pod.Backoff {
	r.Helper()
	return lifecycle.FindBackoff(r.load(uid).Desired.Backoffs, container, kind)
}

func (r *rig) status(uid types.UID, container string) corev1.ContainerStatus {
	r.Helper()
	st := r.load(uid).Desired.Status
	for _, cs := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if cs.Name == container {
			return cs
		}
	}
	r.Fatalf("no status of %s in %+v", container, st)
	return corev1.ContainerStatus{}
}

// watchedStore counts calls, and lets a test do something just before one.
type watchedStore struct {
	*store.Store
	mu           sync.Mutex
	loads        int
	commits      int
	observations int
	beforeCommit func(pod.Record)
	failLoads    error
	dropFacts    bool // what runtime calls returned is not kept
	failFacts    error
}

// set changes what the store does from now on.
func (s *watchedStore) set(change func(*watchedStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *watchedStore) Load(ctx context.Context, uid types.UID) (pod.Snapshot, error) {
	s.mu.Lock()
	s.loads++
	err := s.failLoads
	s.mu.Unlock()
	if err != nil {
		return pod.Snapshot{}, err
	}
	return s.Store.Load(ctx, uid)
}

func (s *watchedStore) Commit(ctx context.Context, rec pod.Record) error {
	s.mu.Lock()
	s.commits++
	before := s.beforeCommit
	s.beforeCommit = nil
	s.mu.Unlock()
	if before != nil {
		before(rec)
	}
	return s.Store.Commit(ctx, rec)
}

func (s *watchedStore) Observe(ctx context.Context, f pod.Facts) error {
	s.mu.Lock()
	s.observations++
	drop, err := s.dropFacts, s.failFacts
	s.mu.Unlock()
	if drop || err != nil {
		return err
	}
	return s.Store.Observe(ctx, f)
}

// counts are the calls since the last time, and sets them to zero.
func (s *watchedStore) counts() (loads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loads, writes = s.loads, s.commits+s.observations
	s.loads, s.commits, s.observations = 0, 0, 0
	return loads, writes
}

// changes is how many changes a revision counts.
func changes(revision int64) int64 { return revision / 1_000_000_000 }
