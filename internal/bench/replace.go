package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// measureReplace: a container whose process is killed, until its successor runs.
// Podman cleans up after the first in a process of its own, which costs as much
// as a start; what raw calls take beside it is told too.
func measureReplace(ctx context.Context, b *bench) ([]row, error) {
	ours := &contender{name: "podstead", sample: b.killed}
	raw := &contender{name: "raw create + start", sample: b.startedBeside}
	after := &contender{name: "raw kill, create + start", sample: b.startedAfterKill}
	if err := race(ctx, b.samples, ours, raw, after); err != nil {
		return nil, err
	}
	const what = "container killed → new one running"
	return []row{compare(what, 1.25, ours, raw), compare(what, 1.25, ours, after)}, nil
}

// killed takes a new pod each time: a second restart would be held back.
func (b *bench) killed(ctx context.Context) (time.Duration, error) {
	p, err := b.newPod("a")
	if err != nil {
		return 0, err
	}
	running := p.running(ctx)
	if err := errors.Join(b.agent.start(ctx, p), <-running, b.agent.settled(ctx), pause(ctx, quiet)); err != nil {
		return 0, err
	}
	pid, err := b.onlyProcess(ctx, fmt.Sprintf(ourPod, p.name))
	if err != nil {
		return 0, err
	}
	running = p.running(ctx)
	began := time.Now()
	if err := errors.Join(syscall.Kill(pid, syscall.SIGKILL), <-running); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, b.agent.remove(ctx, p)
}

// onlyProcess is that of the one container of a pod.
func (b *bench) onlyProcess(ctx context.Context, filter string) (pid int, err error) {
	found, err := b.raw.inspect(ctx, filter)
	if err != nil {
		return 0, err
	}
	for _, c := range found {
		if !c.IsInfra {
			return c.State.Pid, nil
		}
	}
	return 0, errors.New("the pod has no container")
}

// startedBeside makes and starts a container in a pod that runs.
func (b *bench) startedBeside(ctx context.Context) (time.Duration, error) {
	return b.another(ctx, func(string) error { return nil })
}

// startedAfterKill kills the one that runs right before.
func (b *bench) startedAfterKill(ctx context.Context) (time.Duration, error) {
	return b.another(ctx, func(pod string) error {
		pid, err := b.onlyProcess(ctx, fmt.Sprintf(rawPod, pod))
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	})
}

// another is how long it takes to make and start another container in a pod,
// once what comes before that is done.
func (b *bench) another(ctx context.Context, before func(pod string) error) (time.Duration, error) {
	p, err := b.newPod("a")
	if err != nil {
		return 0, err
	}
	running := p.running(ctx)
	if err := errors.Join(b.raw.start(ctx, p), <-running, pause(ctx, quiet)); err != nil {
		return 0, err
	}
	next, err := newPodFiles(p.dir+"-next", p.name, "b")
	if err != nil {
		return 0, err
	}
	running = next.running(ctx)
	if err := before(p.name); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := errors.Join(b.raw.startIn(ctx, next, "b"), <-running); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, b.raw.remove(ctx, podFiles{name: p.name, containers: []string{"a", "b"}})
}
