package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// measureRestart: the agent is started with pods that run, and one more whose
// manifest came while it was down, until it is ready and that pod runs.
func measureRestart(ctx context.Context, b *bench) (rows []row, err error) {
	pods, err := b.inhabited(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.agent.removeAll(ctx, pods)) }()
	before, err := b.starts(ctx)
	if err != nil {
		return nil, err
	}
	ours := &contender{name: "podstead", sample: b.agentStarted}
	raw := &contender{name: "raw list + start", sample: b.listedAndStarted}
	if err := race(ctx, b.rounds(), ours, raw); err != nil {
		return nil, err
	}
	after, err := b.starts(ctx)
	if err != nil {
		return nil, err
	}
	restarted := 0
	for id, at := range before {
		if after[id] != at {
			restarted++
		}
	}
	return []row{
		compare(fmt.Sprintf("agent restart with %d pods → ready, and a new pod runs", b.pods), 1.5, ours, raw),
		{what: "containers restarted by it", unit: " containers", ours: fmt.Sprint(restarted), value: float64(restarted), spread: fmt.Sprintf("%d restarts", b.rounds()+1)},
	}, nil
}

// inhabited starts as many pods as a burst has, and returns when all is quiet.
func (b *bench) inhabited(ctx context.Context) ([]podFiles, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods, running, err := b.newPods(ctx)
	if err != nil {
		return nil, err
	}
	return pods, errors.Join(b.agent.startAll(ctx, pods), <-running, b.agent.settled(ctx))
}

func (b *bench) agentStarted(ctx context.Context) (time.Duration, error) {
	b.agent.end()
	p, err := b.newPod("a")
	if err != nil {
		return 0, err
	}
	running := p.running(ctx)
	if err := b.agent.start(ctx, p); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := b.agent.run(ctx); err != nil {
		return 0, err
	}
	if err := <-running; err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, b.agent.remove(ctx, p)
}

func (b *bench) listedAndStarted(ctx context.Context) (time.Duration, error) {
	p, err := b.newPod("a")
	if err != nil {
		return 0, err
	}
	running := p.running(ctx)
	began := time.Now()
	var list []struct{ Id string }
	if err := b.raw.call(ctx, http.MethodGet, "/containers/json?all=true", nil, &list); err != nil {
		return 0, err
	}
	if err := b.raw.start(ctx, p); err != nil {
		return 0, err
	}
	if err := <-running; err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, b.raw.remove(ctx, p)
}

// starts is when each container started, by ID.
func (b *bench) starts(ctx context.Context) (map[string]string, error) {
	found, err := b.raw.inspect(ctx, `{}`)
	starts := map[string]string{}
	for _, c := range found {
		starts[c.ID] = c.State.StartedAt
	}
	return starts, err
}
