package simulate

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/observe"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/reconcile"
	"podstead.io/podstead/internal/store"
)

// The agent's own times: see internal/config and internal/app.
const (
	syncFrequency      = time.Minute
	fileCheckFrequency = 20 * time.Second
	fileSettles        = 200 * time.Millisecond
	adoptPatience      = 30 * time.Second
)

// agent is one life of the agent, put together as internal/app does.
type agent struct {
	w       *world
	gate    *gate
	calls   *calls
	store   *store.Store
	observe *observe.Observer
	loop    *reconcile.Loop
	fresh   bool
	running sync.WaitGroup
	cancel  context.CancelFunc
	failed  chan error // has room for the first part that gave up
}

// newAgent starts an agent on the files in the directory.
func newAgent(w *world, dir string, g *gate) (*agent, error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	g.kill = cancel
	a := &agent{w: w, gate: g, calls: &calls{w: w, gate: g, counts: map[string]uint64{}}, cancel: cancel, failed: make(chan error, 1)}
	o := store.Options{
		Path: filepath.Join(dir, databaseFile), NodeID: nodeID, BootID: bootID(w.boots), Restore: manifest.Restore,
		ContainerEdge: lifecycle.ContainerEdge, NormalizeImage: normalized, Now: w.clock.now, Driver: gatedDriver,
	}
	if w.plan.Backup {
		o.BackupPath = filepath.Join(dir, backupFile)
	}
	s, report, err := store.Open(ctx, o)
	if err != nil {
		cancel()
		return nil, err
	}
	a.store, a.fresh = s, report.Created || report.Restored
	if err := s.Configure(ctx, []pod.Source{overHTTP, inFiles}); err != nil {
		cancel()
		return nil, errors.Join(err, s.Close())
	}
	a.observe = observe.New(observe.Options{
		Runtime: a.calls, Store: s, Log: slog.New(slog.DiscardHandler), Relist: syncFrequency, Rebooted: s.Rebooted,
	})
	a.loop = reconcile.New(reconcile.Options{
		Store: s, Runtime: a.calls, Images: images{a.calls}, Volumes: volumes{a.calls}, Node: s.NodeID(),
		HostIPs: func() []string { return []string{"192.0.2.1"} }, Log: slog.New(slog.DiscardHandler), Now: w.clock.now,
	})
	s.OnCommit(func(c pod.Changes) { a.loop.Wake(c.Pods...) })
	a.part(func() error { return a.observe.Run(ctx) })
	a.part(func() error { return a.reconcile(ctx) })
	a.part(func() error { return a.readFiles(ctx) })
	a.part(func() error { return a.resync(ctx) })
	return a, nil
}

func normalized(name string) string {
	full, err := pod.NormalizeImage(name)
	if err != nil {
		return name
	}
	return full
}

func (a *agent) part(run func() error) {
	a.running.Go(func() {
		if err := run(); err != nil {
			select {
			case a.failed <- err:
			default:
			}
		}
	})
}

// end waits for every part once the agent's context has ended.
func (a *agent) end() error {
	a.cancel()
	a.running.Wait()
	return a.store.Close()
}

func (a *agent) reconcile(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.observe.Synced():
		return a.loop.Run(ctx)
	}
}

// resync looks at every pod once in a while, and the first time at what is left
// of pods that are gone.
func (a *agent) resync(ctx context.Context) error {
	tick := time.NewTicker(syncFrequency)
	defer tick.Stop()
	cleaned := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if !cleaned {
				cleaned = a.cleanVolumes(ctx)
			}
			a.loop.Resync(ctx) //nolint:errcheck // it comes again
		}
	}
}

// cleanVolumes reports whether every source has been read by now, so that it is
// known whose volumes are nobody's.
func (a *agent) cleanVolumes(ctx context.Context) bool {
	list, err := a.store.Sources(ctx)
	if err != nil {
		return false
	}
	for _, s := range list {
		if !s.Synced {
			return false
		}
	}
	for _, uid := range a.w.fake.Volumes().Left() {
		if _, err := a.store.Load(ctx, types.UID(uid)); errors.Is(err, pod.NotFound) {
			volumes{a.calls}.Remove(ctx, types.UID(uid)) //nolint:errcheck // the next agent tries again
		}
	}
	return true
}

// readFiles is the directory source: it looks when something changed and every
// so often.
func (a *agent) readFiles(ctx context.Context) error {
	if a.fresh {
		patience := time.NewTimer(adoptPatience)
		defer patience.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-a.observe.Synced():
		case <-patience.C:
		}
	}
	tick := time.NewTicker(fileCheckFrequency)
	defer tick.Stop()
	for ctx.Err() == nil {
		a.syncFiles(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-a.w.wishes.changed:
			time.Sleep(fileSettles)
		}
	}
	return nil
}

func (a *agent) syncFiles(ctx context.Context) {
	wanted, set := a.w.wishes.files()
	if _, err := a.store.SyncSource(ctx, inFiles, set); err == nil && !a.gate.isDead() {
		a.w.wishes.acknowledge(wanted)
	}
}
