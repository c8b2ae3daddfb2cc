// Package app composes the agent: it builds every part, starts them in the order
// in which they need each other, and stops them in reverse.
//
// Run owns every goroutine of the agent, each started by one of the parts it
// runs, and returns when the last has ended. Containers are left as they are.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/config"
	"podstead.io/podstead/internal/image"
	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/node"
	"podstead.io/podstead/internal/observe"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/podman"
	"podstead.io/podstead/internal/reconcile"
	"podstead.io/podstead/internal/store"
	"podstead.io/podstead/internal/volume"
)

// The files in the root directory.
const (
	databaseFile = "podstead.db"
	backupFile   = "podstead-backup.db"
)

// adoptPatience is how long sources wait, with a database that was made anew,
// for what Podman has: pods that run already are to be adopted, not made again.
const adoptPatience = 30 * time.Second

// agent holds the parts while they run.
type agent struct {
	cfg  config.Config
	log  *slog.Logger
	node string
	url  string
	// podmanReady waits for a Podman service of the agent's own to answer.
	podmanReady func(context.Context) error
	fresh       bool
	store       *store.Store
	driver      *podman.Driver
	images      *image.Puller
	volumes     *volume.Volumes
	observe     *observe.Observer
	loop        *reconcile.Loop
	oom         node.OOMKills
	addresses   atomic.Pointer[[]string]
	sources     []source
	parser      manifest.Parser
}

// Run runs the agent until ctx ends or a part that it can't do without fails.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	host := thisHost()
	nodeName, err := host.nodeName(cfg.HostnameOverride)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
	if err := os.MkdirAll(cfg.RootDir, 0o700); err != nil {
		return fmt.Errorf("make --root-dir: %w", err)
	}
	lock, err := lockRoot(cfg.RootDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()

	a := &agent{cfg: cfg, log: log, node: nodeName, parser: manifest.Parser{NodeName: nodeName}}
	if err := a.openStore(ctx, host); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.store.Close()) }()

	stopPodman := a.findPodman(ctx)
	defer stopPodman()
	if err := a.build(); err != nil {
		return err
	}
	defer a.driver.Close()
	defer a.images.Close()
	return a.run(ctx)
}

func (a *agent) openStore(ctx context.Context, h host) error {
	boot, err := h.bootIdentity()
	if err != nil {
		return err
	}
	id, err := h.nodeIdentity(a.cfg.RootDir)
	if err != nil {
		return err
	}
	s, report, err := store.Open(ctx, store.Options{
		Path:       filepath.Join(a.cfg.RootDir, databaseFile),
		BackupPath: filepath.Join(a.cfg.RootDir, backupFile),
		NodeID:     id, BootID: boot,
		Restore:       manifest.Restore,
		ContainerEdge: lifecycle.ContainerEdge,
		NormalizeImage: func(name string) string {
			full, err := pod.NormalizeImage(name)
			if err != nil {
				return name // validation has refused it before
			}
			return full
		},
		Logger: a.log,
	})
	if err != nil {
		return err
	}
	a.store, a.fresh = s, report.Created || report.Restored
	switch {
	case report.Corrupt != "":
		a.log.Error("the database was damaged and has been made anew from its backup", "moved_to", report.Corrupt, "damage", report.Damage, "pods", report.Pods, "lost", report.Lost)
	case report.Restored:
		a.log.Warn("the database was missing and has been restored from its backup", "pods", report.Pods, "lost", report.Lost)
	case len(report.Migrated) > 0:
		a.log.Info("the database was migrated", "versions", report.Migrated)
	}
	return nil
}

// findPodman settles the URL, starting a service of the agent's own when there
// is none. The returned function ends that.
func (a *agent) findPodman(ctx context.Context) (stop func()) {
	a.url = findPodman(ctx, a.cfg.PodmanURL, podmanSockets(os.Getenv), a.log)
	if a.url != "" {
		a.podmanReady = func(context.Context) error { return nil }
		return func() {}
	}
	service := newPodmanService(a.cfg.RuntimeDir(), defaultServiceTiming, a.log)
	a.url, a.podmanReady = service.url(), service.ready
	// Not a child of ctx: the parts that call Podman end before it does.
	serviceCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		service.run(serviceCtx)
	}()
	return func() { cancel(); <-ended }
}

func (a *agent) build() error {
	var err error
	a.driver, err = podman.New(podman.Options{URL: a.url, Node: a.store.NodeID(), OOMKilled: a.oom.Killed, Log: a.log})
	if err != nil {
		return err
	}
	a.images = image.New(image.Config{
		Runtime:          a.driver,
		Resolver:         image.NewRegistries(image.RegistriesConfig{Timeout: a.cfg.ImageRegistryTimeout}),
		MaxParallelPulls: a.cfg.MaxParallelImagePulls,
	})
	a.volumes = volume.New(a.cfg.RootDir)
	a.observe = observe.New(observe.Options{
		Runtime: a.driver, Store: a.store, Log: a.log,
		Relist: a.cfg.SyncFrequency, Rebooted: a.store.Rebooted,
	})
	a.noteAddresses()
	a.loop = reconcile.New(reconcile.Options{
		Store: a.store, Runtime: a.driver, Images: a.images, Volumes: a.volumes,
		Node: a.store.NodeID(), HostIPs: func() []string { return *a.addresses.Load() }, Log: a.log,
	})
	a.store.OnCommit(func(c pod.Changes) { a.loop.Wake(c.Pods...) })
	a.sources, err = a.makeSources()
	return err
}

func (a *agent) run(ctx context.Context) (err error) {
	if err := a.store.Configure(ctx, a.configured()); err != nil {
		return err
	}
	if err := os.MkdirAll(a.cfg.RuntimeDir(), 0o755); err != nil {
		return fmt.Errorf("make the socket's directory: %w", err)
	}
	listener, err := api.Listen(a.cfg.Socket, a.cfg.SocketGID)
	if err != nil {
		return err
	}
	handler, closeSQL, err := a.handler()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, closeSQL()) }()

	manager := serviceManager{log: a.log}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return api.Serve(ctx, listener, handler, a.log) })
	g.Go(func() error { return a.followKernel(ctx) })
	g.Go(func() error { return a.follow(ctx) })
	g.Go(func() error { return a.reconcile(ctx) })
	for _, s := range a.sources {
		g.Go(func() error { return a.read(ctx, s) })
	}
	g.Go(func() error { return a.resync(ctx) })
	g.Go(func() error { return manager.watchdog(ctx, a.alive) })
	a.log.Info("the agent runs", "node", a.node, "node_id", a.store.NodeID(), "socket", a.cfg.Socket, "podman", a.url)
	manager.ready(fmt.Sprintf("listening on %s, Podman at %s", a.cfg.Socket, a.url))
	<-ctx.Done()
	manager.stopping()
	return g.Wait()
}

// follow observes Podman once there is one.
func (a *agent) follow(ctx context.Context) error {
	if err := a.podmanReady(ctx); err != nil {
		return nil // the agent stops
	}
	return a.observe.Run(ctx)
}

// followKernel learns which containers the kernel killed for memory. An agent
// that may not read the kernel's log believes Podman.
func (a *agent) followKernel(ctx context.Context) error {
	if err := a.oom.Follow(ctx); err != nil {
		a.log.Warn("the kernel's log can't be read: containers killed for memory may be taken to have exited", "err", err)
	}
	return nil
}

// reconcile starts once it is known what Podman has: a plan made without that
// would make everything again.
func (a *agent) reconcile(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.observe.Synced():
	}
	return a.loop.Run(ctx)
}

// clean tells of pods that run and that nobody wants, and removes the volumes of
// those that are gone. It reports whether it is known yet which these are.
func (a *agent) clean(ctx context.Context) bool {
	select {
	case <-a.observe.Synced():
	default:
		return false
	}
	unwanted, err := a.store.Unwanted(ctx)
	if err != nil {
		return false
	}
	var inUse []types.UID
	for _, u := range unwanted {
		inUse = append(inUse, u.UID)
		if u.Kept {
			a.log.Warn("a pod runs that no source wants; it was submitted over HTTP to a database that is lost, and runs on unattended until it is submitted again or deleted", "pod", u.Key.String(), "pod_uid", u.UID)
		}
	}
	a.cleanVolumes(ctx, inUse)
	return true
}

// cleanVolumes removes what is left of pods that are gone: the agent was killed
// while it forgot one.
func (a *agent) cleanVolumes(ctx context.Context, inUse []types.UID) {
	left, err := a.volumes.List()
	if err != nil {
		a.log.Warn("leftover volumes can't be listed", "err", err)
		return
	}
	for _, uid := range left {
		if _, err := a.store.Load(ctx, uid); !errors.Is(err, pod.NotFound) || slices.Contains(inUse, uid) {
			continue
		}
		if err := a.volumes.Remove(ctx, uid); err != nil {
			a.log.Warn("a leftover volume can't be removed", "pod_uid", uid, "err", err)
		}
	}
}

// noteAddresses reads the node's addresses: an agent may start before its
// network does.
func (a *agent) noteAddresses() {
	addresses := node.Addresses()
	a.addresses.Store(&addresses)
}

// resync looks at every pod once in a while, whatever was heard of it. Once every
// source has been read, it is known which volumes are nobody's. It fails when the
// database was removed and a new agent can restore it.
func (a *agent) resync(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.SyncFrequency)
	defer tick.Stop()
	cleaned := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			a.noteAddresses()
			if err := a.store.Intact(ctx); errors.Is(err, pod.NotFound) {
				return err
			} else if err != nil && ctx.Err() == nil {
				a.log.Error("what was submitted since is lost if podsteadd ends now", "err", err)
			}
			if !cleaned && a.allSynced(ctx) {
				cleaned = a.clean(ctx)
			}
			if err := a.loop.Resync(ctx); err != nil && ctx.Err() == nil {
				a.log.Warn("pods can't be looked at", "err", err)
			}
		}
	}
}

// alive is what the watchdog asks: the store answers. What Podman does is no
// reason to start the agent again.
func (a *agent) alive(ctx context.Context) error {
	_, err := a.store.UIDs(ctx)
	return err
}
