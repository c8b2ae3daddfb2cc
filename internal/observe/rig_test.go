package observe_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/observe"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
	"podstead.io/podstead/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const busybox = "docker.io/library/busybox:latest"

// relist is the time between listings in these tests.
const relist = time.Minute

// rig is an observer between a runtime in memory and a real store, in a bubble
// of fake time.
type rig struct {
	*testing.T
	store    *recordingStore
	fake     *runtimetest.Fake
	observer *observe.Observer
	stop     func()
	rebooted atomic.Bool
	image    string
	log      logBook
}

func inBubble(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.listed()
		test(r)
	})
}

func newRig(t *testing.T) *rig {
	s, _, err := store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "podstead.db"), NodeID: "node-1", BootID: "boot-1",
		Restore: manifest.Restore, ContainerEdge: lifecycle.ContainerEdge,
	})
	r := &rig{T: t, stop: func() {}}
	r.must(err)
	r.store = &recordingStore{Store: s}
	r.fake = runtimetest.New(runtimetest.Options{Node: "node-1", Latency: runtimetest.PodmanLatency})
	r.image = r.fake.Images().Add(busybox)
	t.Cleanup(func() {
		r.stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		r.fake.Close()
	})
	return r
}

// start runs a new observer.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.Context())
	r.observer = observe.New(observe.Options{
		Runtime: r.fake, Store: r.store, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Relist: relist, Rebooted: r.rebooted.Load,
	})
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.observer.Run(ctx); err != nil {
			r.Error(err)
		}
	})
	r.stop = func() {
		cancel()
		running.Wait()
	}
}

// listed waits for the first listing and forgets what was called so far.
func (r *rig) listed() {
	<-r.observer.Synced()
	synctest.Wait()
	r.fake.ForgetCalls()
	r.store.take()
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// pass lets time pass, and whatever is due then come to rest.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// running makes a sandbox with a container of the name, past the agent: nobody
// has told the store.
func (r *rig) running(name string) pod.Container {
	r.Helper()
	c, err := r.fake.StartContainer(r.Context(), r.created(name).ID)
	r.must(err)
	return c
}

func (r *rig) created(name string) pod.Container {
	r.Helper()
	id := pod.Identity{
		Key: pod.Key{Namespace: "default", Name: name}, UID: types.UID("uid-" + name), Node: "node-1",
		Kind: pod.KindSandbox, Container: pod.SandboxContainerName, Revision: 1, Hash: "h",
	}
	b, err := r.fake.CreateSandbox(r.Context(), pod.SandboxSpec{Identity: id})
	r.must(err)
	r.must(r.fake.StartSandbox(r.Context(), b.ID))
	id.Kind, id.Container = pod.KindContainer, name
	c, err := r.fake.CreateContainer(r.Context(), pod.ContainerSpec{Identity: id, SandboxID: b.ID, Image: busybox, ImageID: r.image})
	r.must(err)
	return c
}

// stored is a container as the store has it.
func (r *rig) stored(id string) pod.Container {
	r.Helper()
	c, err := r.store.Container(r.Context(), id)
	r.must(err)
	return c
}

func (r *rig) wantGone(id string) {
	r.Helper()
	if c, err := r.store.Container(r.Context(), id); !errors.Is(err, pod.NotFound) && c.State != pod.RunGone {
		r.Errorf("the store has %s as %s, error %v", id, c.State, err)
	}
}

// recordingStore keeps what it was told, and fails when it is to.
type recordingStore struct {
	*store.Store
	mu    sync.Mutex
	facts []pod.Facts
	fail  int // so many Observe calls
}

func (s *recordingStore) Observe(ctx context.Context, f pod.Facts) error {
	s.mu.Lock()
	s.facts = append(s.facts, f)
	failing := s.fail > 0
	if failing {
		s.fail--
	}
	s.mu.Unlock()
	if failing {
		return &pod.Error{Class: pod.Unavailable, Op: "observe", Err: errors.New("the disk is full")}
	}
	return s.Store.Observe(ctx, f)
}

func (s *recordingStore) failNext(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = n
}

// take returns what it was told since the last time.
func (s *recordingStore) take() []pod.Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.facts
	s.facts = nil
	return f
}
