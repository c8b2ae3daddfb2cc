package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// measureReplace: a container whose process is killed, until its successor runs.
func measureReplace(ctx context.Context, b *bench) ([]row, error) {
	ours := &contender{name: "podstead", sample: b.killed}
	raw := &contender{name: "raw create + start", sample: b.startedBeside}
	if err := race(ctx, b.samples, ours, raw); err != nil {
		return nil, err
	}
	return []row{compare("container killed → new one running", 1.25, ours, raw)}, nil
}

// killed takes a new pod each time: a second restart would be held back.
func (b *bench) killed(ctx context.Context) (time.Duration, error) {
	p, err := b.newPod("a")
	if err != nil {
		return 0, err
	}
	running := p.running(ctx)
	if err := errors.Join(b.agent.start(ctx, p), <-running, b.agent.settled(ctx)); err != nil {
		return 0, err
	}
	if err := pause(ctx, quiet); err != nil {
		return 0, err
	}
	found, err := b.raw.inspect(ctx, fmt.Sprintf(ourPod, p.name))
	if err != nil {
		return 0, err
	}
	for _, c := range found {
		if c.IsInfra {
			continue
		}
		running = p.running(ctx)
		began := time.Now()
		if err := syscall.Kill(c.State.Pid, syscall.SIGKILL); err != nil {
			return 0, err
		}
		if err := <-running; err != nil {
			return 0, err
		}
		took := time.Since(began)
		return took, b.agent.remove(ctx, p)
	}
	return 0, errors.New("the pod has no container")
}

// startedBeside makes and starts a container in a pod that runs.
func (b *bench) startedBeside(ctx context.Context) (time.Duration, error) {
	p, err := b.newPod("a")
	if err != nil {
		return 0, err
	}
	running := p.running(ctx)
	if err := errors.Join(b.raw.start(ctx, p), <-running); err != nil {
		return 0, err
	}
	if err := pause(ctx, quiet); err != nil {
		return 0, err
	}
	next, err := newPodFiles(p.dir+"-next", p.name, "b")
	if err != nil {
		return 0, err
	}
	running = next.running(ctx)
	began := time.Now()
	if err := b.raw.startIn(ctx, next, "b"); err != nil {
		return 0, err
	}
	if err := <-running; err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, b.raw.remove(ctx, podFiles{name: p.name, containers: []string{"a", "b"}})
}
