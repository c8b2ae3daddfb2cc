package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// measureRemove: a pod of two containers that obey SIGTERM, until its processes,
// containers and network are gone.
func measureRemove(ctx context.Context, b *bench) ([]row, error) {
	removed := func(start, remove func(context.Context, podFiles) error, filter string) func(context.Context) (time.Duration, error) {
		return func(ctx context.Context) (time.Duration, error) {
			p, err := b.newPod("a", "b")
			if err != nil {
				return 0, err
			}
			running := p.running(ctx)
			if err := errors.Join(start(ctx, p), <-running); err != nil {
				return 0, err
			}
			if err := b.agent.settled(ctx); err != nil {
				return 0, err
			}
			if err := pause(ctx, quiet); err != nil {
				return 0, err
			}
			left, err := b.traces(ctx, fmt.Sprintf(filter, p.name))
			if err != nil {
				return 0, err
			}
			began := time.Now()
			if err := remove(ctx, p); err != nil {
				return 0, err
			}
			return left.gone(ctx, began)
		}
	}
	ours := &contender{name: "podstead", sample: removed(b.agent.start, b.agent.withdraw, ourPod)}
	raw := &contender{name: "raw API", sample: removed(b.raw.start, b.raw.remove, rawPod)}
	if err := race(ctx, b.samples, ours, raw); err != nil {
		return nil, err
	}
	return []row{compare("manifest deleted → containers, pause and network gone", 1.15, ours, raw)}, nil
}

// Filters of Podman's for a pod of the agent's and one made by raw calls.
const (
	ourPod = `{"label":["io.kubernetes.pod.name=%s-bench"]}`
	rawPod = `{"name":["^%s$"]}`
)

// traces are what a pod has on the machine.
type traces struct {
	processes []int
	files     []string // the containers' own directories, and the network namespace
}

func (b *bench) traces(ctx context.Context, filter string) (traces, error) {
	found, err := b.raw.inspect(ctx, filter)
	if err != nil {
		return traces{}, err
	}
	var t traces
	for _, c := range found {
		t.processes = append(t.processes, c.State.Pid)
		t.files = append(t.files, filepath.Dir(filepath.Dir(c.OCIConfigPath)))
		if c.NetworkSettings.SandboxKey != "" {
			t.files = append(t.files, c.NetworkSettings.SandboxKey)
		}
	}
	if len(t.processes) != 3 || len(t.files) < 4 {
		return traces{}, fmt.Errorf("the pod has %d processes and %d files, not 3 and at least 4", len(t.processes), len(t.files))
	}
	return t, nil
}

// gone answers how long it took until the last of them was gone. Nothing reports
// the end of a directory and of a namespace alike: they are looked at every
// millisecond, whoever removes them.
func (t traces) gone(ctx context.Context, began time.Time) (time.Duration, error) {
	for _, pid := range t.processes {
		for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			if err := moment(ctx); err != nil {
				return 0, fmt.Errorf("process %d is there: %w", pid, err)
			}
		}
	}
	for _, file := range t.files {
		for {
			if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) {
				break
			}
			if err := moment(ctx); err != nil {
				return 0, fmt.Errorf("%s is there: %w", file, err)
			}
		}
	}
	return time.Since(began), nil
}

func moment(ctx context.Context) error { return pause(ctx, time.Millisecond) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
