package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// parallels are the numbers of pods at a time that raw calls are tried with; the
// best one counts.
var parallels = []int{2, 4, 8}

// rounds is how often a long sample is taken.
func (b *bench) rounds() int { return max(3, b.samples/3) }

// measureBurst: many pods at once, until all run.
func measureBurst(ctx context.Context, b *bench) ([]row, error) {
	burst := func(start, remove func(context.Context, []podFiles) error) func(context.Context) (time.Duration, error) {
		return func(ctx context.Context) (time.Duration, error) {
			pods, running, err := b.newPods(ctx)
			if err != nil {
				return 0, err
			}
			began := time.Now()
			if err := start(ctx, pods); err != nil {
				return 0, err
			}
			if err := <-running; err != nil {
				return 0, err
			}
			took := time.Since(began)
			return took, remove(ctx, pods)
		}
	}
	ours := &contender{name: "podstead", sample: burst(b.agent.startAll, b.agent.removeAll)}
	contenders := []*contender{ours}
	for _, n := range parallels {
		contenders = append(contenders, &contender{
			name:   fmt.Sprintf("raw API %d at a time", n),
			sample: burst(parallel(n, b.raw.start), parallel(4, b.raw.remove)),
		})
	}
	if err := race(ctx, b.rounds(), contenders...); err != nil {
		return nil, err
	}
	best := contenders[1]
	for _, c := range contenders[2:] {
		if median(c.took) < median(best.took) {
			best = c
		}
	}
	return []row{compare(fmt.Sprintf("%d pods at once → all running", b.pods), 1.15, ours, best)}, nil
}

// newPods makes as many pods as a burst has, of one container each. The channel
// answers once all of them run.
func (b *bench) newPods(ctx context.Context) ([]podFiles, <-chan error, error) {
	pods := make([]podFiles, b.pods)
	var all errgroup.Group
	for i := range pods {
		var err error
		if pods[i], err = b.newPod("a"); err != nil {
			return nil, nil, err
		}
		running := pods[i].running(ctx)
		all.Go(func() error { return <-running })
	}
	done := make(chan error, 1)
	go func() { done <- all.Wait() }()
	return pods, done, nil
}

// parallel does something to all pods, so many at a time.
func parallel(n int, do func(context.Context, podFiles) error) func(context.Context, []podFiles) error {
	return func(ctx context.Context, pods []podFiles) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(n)
		for _, p := range pods {
			g.Go(func() error { return do(ctx, p) })
		}
		return g.Wait()
	}
}
