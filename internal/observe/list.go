package observe

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"podstead.io/podstead/internal/pod"
)

// refineTimeout is how long one thing may hold up a listing.
const refineTimeout = 10 * time.Second

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
	outages, returned := o.returned()
	facts := pod.Facts{Complete: true, AsOf: asOf, Rebooted: o.o.Rebooted(), Returned: returned}
	if facts.Sandboxes, err = refine(ctx, boxes, o.refineSandbox); err != nil {
		return err
	}
	if facts.Containers, err = refine(ctx, containers, o.refineContainer); err != nil {
		return err
	}
	if err := o.observe(ctx, facts); err != nil {
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
	o.ended = outages
	return nil
}

// returned reports whether Podman was away since the last listing.
func (o *Observer) returned() (outages int, returned bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outages, o.outages > o.ended
}

// refine has each listed thing completed, some at a time. What is gone by now is
// left out.
func refine[T any](ctx context.Context, listed []T, complete func(context.Context, T) (T, error)) ([]T, error) {
	out := make([]T, len(listed))
	gone := make([]bool, len(listed))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelInspects)
	for i := range listed {
		g.Go(func() error {
			var err error
			out[i], err = complete(ctx, listed[i])
			if gone[i] = errors.Is(err, pod.NotFound); gone[i] {
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
	// After a reboot Podman calls created what ran; the store knows better.
	if err == nil && stored.State == pod.RunExited && b.State == pod.RunCreated {
		return stored, nil
	}
	ctx, cancel := context.WithTimeout(ctx, refineTimeout)
	defer cancel()
	seen, err := o.o.Runtime.InspectSandbox(ctx, b.ID)
	if err == nil || errors.Is(err, pod.NotFound) {
		return seen, err
	}
	o.later(b.ID, hint{sandbox: true})
	if sameSecond(stored.StartedAt, b.StartedAt) {
		b.StartedAt = stored.StartedAt
	}
	return b, nil
}

func (o *Observer) refineContainer(ctx context.Context, c pod.Container) (pod.Container, error) {
	stored, err := o.o.Store.Container(ctx, c.ID)
	same := err == nil && stored.State == c.State && sameSecond(stored.StartedAt, c.StartedAt)
	// Of an end that nobody saw, the store keeps when it learnt of it.
	if same && (c.State.Live() || c.FinishedAt.IsZero() || sameSecond(stored.FinishedAt, c.FinishedAt)) {
		return stored, nil
	}
	// A process that could not be started leaves a container that Podman still
	// lists as created; the store knows better.
	if err == nil && stored.State == pod.RunExited && c.State == pod.RunCreated {
		return stored, nil
	}
	ctx, cancel := context.WithTimeout(ctx, refineTimeout)
	defer cancel()
	seen, err := o.o.Runtime.InspectContainer(ctx, c.ID)
	if err == nil || errors.Is(err, pod.NotFound) {
		return seen, err
	}
	o.later(c.ID, hint{})
	if sameSecond(stored.StartedAt, c.StartedAt) {
		c.StartedAt = stored.StartedAt // in full, or it would be another run
	}
	return c, nil
}

// later has a thing looked at by itself that Podman listed and can't describe
// now. It stays as it was listed: it must not hold up the others.
func (o *Observer) later(id string, h hint) {
	o.giveBack(id, h)
	o.dirty.Add(id)
}

func sameSecond(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}
