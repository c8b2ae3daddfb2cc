package observe

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"podstead.io/podstead/internal/pod"
)

// list writes everything that Podman has of this node's. What the listing shows
// as it is stored is taken to be so; only the rest is inspected.
func (o *Observer) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.o.CallTimeout)
	defer cancel()
	asOf := time.Now()
	defer o.listingBegins(asOf)()
	boxes, containers, err := o.o.Runtime.List(ctx)
	if err != nil {
		return err
	}
	facts := pod.Facts{Complete: true, AsOf: asOf, Rebooted: o.o.Rebooted()}
	if facts.Sandboxes, err = refine(ctx, boxes, o.refineSandbox); err != nil {
		return err
	}
	if facts.Containers, err = refine(ctx, containers, o.refineContainer); err != nil {
		return err
	}
	if err := o.o.Store.Observe(ctx, facts); err != nil {
		return err
	}
	if err := o.listImages(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.listed {
		o.listed = true
		close(o.synced)
	}
	return nil
}

// refine has each listed thing completed, some at a time. What is gone by now is
// left out; what the runtime can't inspect stays as it was listed.
func refine[T any](ctx context.Context, listed []T, complete func(context.Context, T) (T, error)) ([]T, error) {
	out := make([]T, len(listed))
	gone := make([]bool, len(listed))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelInspects)
	for i := range listed {
		g.Go(func() error {
			var err error
			out[i], err = complete(ctx, listed[i])
			switch {
			case errors.Is(err, pod.NotFound):
				gone[i] = true
				return nil
			case err != nil && !errors.Is(err, pod.Unavailable):
				out[i] = listed[i] // a damaged container must not hold up the others
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	kept := out[:0]
	for i := range out {
		if !gone[i] {
			kept = append(kept, out[i])
		}
	}
	return kept, nil
}

func (o *Observer) refineSandbox(ctx context.Context, b pod.Sandbox) (pod.Sandbox, error) {
	stored, err := o.o.Store.Sandbox(ctx, b.ID)
	if err == nil && stored.State == b.State && sameSecond(stored.StartedAt, b.StartedAt) {
		return stored, nil
	}
	return o.o.Runtime.InspectSandbox(ctx, b.ID)
}

func (o *Observer) refineContainer(ctx context.Context, c pod.Container) (pod.Container, error) {
	stored, err := o.o.Store.Container(ctx, c.ID)
	same := err == nil && stored.State == c.State && sameSecond(stored.StartedAt, c.StartedAt)
	if same && (c.State.Live() || sameSecond(stored.FinishedAt, c.FinishedAt)) {
		return stored, nil
	}
	// A process that could not be started leaves a container that Podman still
	// lists as created; the store knows better.
	if err == nil && stored.State == pod.RunExited && c.State == pod.RunCreated {
		return stored, nil
	}
	return o.o.Runtime.InspectContainer(ctx, c.ID)
}

func sameSecond(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}
