package main

import (
	"context"
	"time"
)

// measureStart: a pod of two containers, asked for until both run.
func measureStart(ctx context.Context, b *bench) ([]row, error) {
	started := func(start, remove func(context.Context, podFiles) error) func(context.Context) (time.Duration, error) {
		return func(ctx context.Context) (time.Duration, error) {
			p, err := b.newPod("a", "b")
			if err != nil {
				return 0, err
			}
			running := p.running(ctx)
			began := time.Now()
			if err := start(ctx, p); err != nil {
				return 0, err
			}
			if err := <-running; err != nil {
				return 0, err
			}
			took := time.Since(began)
			return took, remove(ctx, p)
		}
	}
	ours := &contender{name: "podstead", sample: started(b.agent.start, b.agent.remove)}
	raw := &contender{name: "raw API", sample: started(b.raw.start, b.raw.remove)}
	play := &contender{name: "kube play", sample: started(kubePlay, kubeDown)}
	if err := race(ctx, b.samples, ours, raw, play); err != nil {
		return nil, err
	}
	const what = "two-container pod, manifest written → both running"
	return []row{compare(what, 1.10, ours, raw), compare(what, 1.00, ours, play)}, nil
}
