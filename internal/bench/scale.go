package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/observe"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/reconcile"
	"podstead.io/podstead/internal/runtimetest"
	"podstead.io/podstead/internal/source/dir"
	"podstead.io/podstead/internal/store"
)

// measureScale: one manifest of many is edited, until the container that it
// changes was replaced. The runtime is one in memory whose calls take no time, so
// that nothing hides what the agent itself does.
func measureScale(ctx context.Context, b *bench) ([]row, error) {
	const few, many = 50, 5000
	small, err := newCrowd(ctx, filepath.Join(b.dir, "few"), few)
	if err != nil {
		return nil, err
	}
	defer small.end()
	big, err := newCrowd(ctx, filepath.Join(b.dir, "many"), many)
	if err != nil {
		return nil, err
	}
	defer big.end()
	ours := &contender{name: fmt.Sprintf("%d pods", many), sample: big.edited}
	theirs := &contender{name: fmt.Sprintf("%d pods", few), sample: small.edited}
	if err := race(ctx, 3*b.samples, ours, theirs); err != nil {
		return nil, err
	}
	return []row{compare(fmt.Sprintf("%d pods on a runtime in memory: one edit reconciled", many), 1.5, ours, theirs)}, nil
}

// crowd is an agent's own parts, from the manifest directory to the observer,
// over a runtime in memory.
type crowd struct {
	manifests string
	store     *store.Store
	fake      *runtimetest.Fake
	started   chan string // IDs of containers that started
	version   int
	end       func()
}

func newCrowd(ctx context.Context, root string, pods int) (*crowd, error) {
	c := &crowd{manifests: filepath.Join(root, "manifests"), started: make(chan string, 2*pods)}
	if err := os.MkdirAll(c.manifests, 0o755); err != nil {
		return nil, err
	}
	for i := range pods / podsInFile {
		if err := c.write(i); err != nil {
			return nil, err
		}
	}
	if err := c.run(ctx, root); err != nil {
		return nil, err
	}
	for range pods {
		select {
		case <-c.started:
		case <-ctx.Done():
			c.end()
			return nil, ctx.Err()
		}
	}
	return c, c.settled(ctx)
}

// settled returns once no pod changes any more.
func (c *crowd) settled(ctx context.Context) error {
	const calm = time.Second
	versions := -1
	return becomes(ctx, "the pods have settled", func() bool {
		before := versions
		if pause(ctx, calm) != nil {
			return false
		}
		err := c.store.Read(ctx, func(t *store.ReadTx) error { return t.Get(&versions, `SELECT sum(resource_version) FROM desired_pods`) })
		return err == nil && versions == before
	})
}

// podsInFile keeps the largest crowd within what a directory may hold.
const podsInFile = 5

// write makes a file as an editor does. Its first pod carries the version.
func (c *crowd) write(file int) error {
	var b strings.Builder
	for i := range podsInFile {
		version := 0
		if i == 0 {
			version = c.version
		}
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod-%d-%d}\nspec:\n  containers:\n"+
			"  - {name: a, image: %q, imagePullPolicy: IfNotPresent, env: [{name: VERSION, value: \"%d\"}]}\n", file, i, image, version)
	}
	hidden := filepath.Join(c.manifests, ".writing")
	return errors.Join(os.WriteFile(hidden, []byte(b.String()), 0o644), os.Rename(hidden, filepath.Join(c.manifests, fmt.Sprintf("pods-%d.yaml", file))))
}

// run starts the parts as the agent does.
func (c *crowd) run(parent context.Context, root string) error {
	quiet := slog.New(slog.DiscardHandler)
	const node = "bench"
	c.fake = runtimetest.New(runtimetest.Options{Node: node})
	c.fake.Images().Add(image)
	s, _, err := store.Open(parent, store.Options{
		Path: filepath.Join(root, "podstead.db"), NodeID: node, BootID: "boot", Restore: manifest.Restore,
		ContainerEdge: lifecycle.ContainerEdge, NormalizeImage: func(name string) string { return name }, Logger: quiet,
	})
	if err != nil {
		return err
	}
	c.store = s
	source := dir.New(dir.Options{Path: c.manifests, Parser: manifest.Parser{NodeName: node}, Sink: s, Log: quiet})
	observer := observe.New(observe.Options{Runtime: c.fake, Store: s, Log: quiet, Relist: time.Minute, Rebooted: s.Rebooted})
	loop := reconcile.New(reconcile.Options{
		Store: s, Runtime: c.fake, Images: c.fake.Images(), Volumes: c.fake.Volumes(), Node: node,
		HostIPs: func() []string { return []string{"192.0.2.1"} }, Log: quiet,
	})
	s.OnCommit(func(changes pod.Changes) { loop.Wake(changes.Pods...) })
	ctx, cancel := context.WithCancel(parent)
	var running sync.WaitGroup
	running.Go(func() { _ = observer.Run(ctx) })
	running.Go(func() { _ = c.fake.Events(ctx, time.Time{}, func() {}, c.heard) })
	running.Go(func() {
		select {
		case <-observer.Synced():
			_ = loop.Run(ctx)
		case <-ctx.Done():
		}
	})
	c.end = func() {
		cancel()
		running.Wait()
		_ = s.Close()
		c.fake.Close()
	}
	if err := s.Configure(ctx, []pod.Source{source.Source()}); err != nil {
		c.end()
		return err
	}
	running.Go(func() { _ = source.Run(ctx) })
	return nil
}

// heard passes on which containers start, but for infra containers.
func (c *crowd) heard(e pod.RuntimeEvent) {
	if e.Kind == pod.EventStarted && e.SandboxID == "" {
		c.started <- e.ID
	}
}

func (c *crowd) edited(ctx context.Context) (time.Duration, error) {
	c.version++
	began := time.Now()
	if err := c.write(7); err != nil {
		return 0, err
	}
	select {
	case <-c.started:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
