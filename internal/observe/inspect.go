package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"podstead.io/podstead/internal/pod"
)

// imagesKey stands for the set of images among the IDs that want attention.
const imagesKey = "images"

// parallelInspects bounds what a burst of events may ask of Podman at a time.
const parallelInspects = 4

// retryDelay is the pause after a call that failed for a reason that passes.
const retryDelay = time.Second

// inspect looks at what events named, until ctx ends. Nothing is looked at twice
// at a time, and what hangs holds up nothing else.
func (o *Observer) inspect(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	slots := make(chan struct{}, parallelInspects)
	for {
		keys, err := o.dirty.Take(ctx)
		if err != nil {
			return
		}
		for _, id := range keys {
			if o.claim(id) {
				looks.Go(func() { o.attend(ctx, id, slots) })
			}
		}
	}
}

// claim reports whether the ID may be looked at now. If not, that is done again
// once the look that is under way has ended.
func (o *Observer) claim(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, busy := o.busy[id]; busy {
		o.busy[id] = true
		return false
	}
	o.busy[id] = false
	return true
}

func (o *Observer) release(id string) {
	o.mu.Lock()
	again := o.busy[id]
	delete(o.busy, id)
	o.mu.Unlock()
	if again {
		o.dirty.Add(id)
	}
}

// attend looks at one ID, again after a pause if that fails.
func (o *Observer) attend(ctx context.Context, id string, slots chan struct{}) {
	defer o.release(id)
	var err error
	if id == relistKey {
		err = o.list(ctx)
	} else {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err = o.look(ctx, id)
		<-slots
	}
	if ctx.Err() != nil {
		return
	}
	o.report(id, err)
	if err != nil {
		wait(ctx, retryDelay)
		o.claim(id) // has it looked at again once it is released
	}
}

// report logs a failure that is news. While Podman is away, everything fails.
func (o *Observer) report(id string, err error) {
	news := err != nil && o.Health() == nil
	if id == relistKey {
		news = o.note(&o.listing, err)
	}
	switch {
	case news && err != nil:
		o.o.Log.Warn("Podman can't be observed; trying again", "id", id, "err", err)
	case err != nil:
		o.o.Log.Debug("Podman still can't be observed", "id", id, "err", err)
	case news:
		o.o.Log.Info("Podman can be observed")
	}
}

// relist asks for a full listing every so often, until ctx ends.
func (o *Observer) relist(ctx context.Context) {
	tick := time.NewTicker(o.o.Relist)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.Resync()
		}
	}
}

func (o *Observer) listImages(ctx context.Context) error {
	images, err := o.o.Runtime.ListImages(ctx)
	if err != nil {
		return err
	}
	return o.o.Store.ObserveImages(ctx, images)
}

// look asks Podman about one ID and writes the answer. What the store has
// already, because the agent did it itself, is not asked again.
func (o *Observer) look(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, o.o.CallTimeout)
	defer cancel()
	h := o.takeHint(id)
	err := o.lookAt(ctx, id, h)
	if err != nil {
		o.giveBack(id, h)
	}
	return err
}

func (o *Observer) lookAt(ctx context.Context, id string, h hint) error {
	switch {
	case id == imagesKey:
		return o.listImages(ctx)
	case h.sandbox && h.kind == pod.EventRemoved:
		return o.o.Store.Observe(ctx, pod.Facts{GoneSandboxes: []pod.Gone{{ID: id}}})
	case h.sandbox:
		stored, err := o.o.Store.Sandbox(ctx, id)
		if err == nil && knownSandbox(stored, h) {
			return nil
		}
		return o.lookAtSandbox(ctx, id)
	case h.kind == pod.EventRemoved:
		return o.o.Store.Observe(ctx, pod.Facts{GoneContainers: []pod.Gone{{ID: id}}})
	}
	stored, err := o.o.Store.Container(ctx, id)
	if err != nil && !errors.Is(err, pod.NotFound) {
		return err
	}
	if err == nil && !h.user && known(stored, h) {
		return nil
	}
	return o.lookAtContainer(ctx, id, h)
}

func (o *Observer) lookAtContainer(ctx context.Context, id string, h hint) error {
	asOf := time.Now()
	c, err := o.o.Runtime.InspectContainer(ctx, id)
	switch {
	case errors.Is(err, pod.NotFound):
		return o.o.Store.Observe(ctx, pod.Facts{GoneContainers: []pod.Gone{{ID: id}}})
	case err != nil:
		return err
	case c.Kind == pod.KindSandbox:
		return o.lookAtSandbox(ctx, c.SandboxID)
	}
	if h.user && !c.State.Live() {
		c.EndCause, c.EndDetail = pod.CauseUser, "stopped in Podman"
	}
	return o.o.Store.Observe(ctx, pod.Facts{Containers: []pod.Container{c}, AsOf: asOf})
}

// known reports whether the event says no more than what is stored.
func known(c pod.Container, h hint) bool {
	switch h.kind {
	case pod.EventCreated:
		return true
	case pod.EventStarted:
		return startKnown(c.StartedAt, h)
	case pod.EventDied:
		return c.State == pod.RunExited
	default:
		return false
	}
}

func knownSandbox(b pod.Sandbox, h hint) bool {
	return h.kind == pod.EventCreated || (h.kind == pod.EventStarted && startKnown(b.StartedAt, h))
}

// startKnown reports whether the event is about the start that is stored: it
// follows within a second.
func startKnown(startedAt time.Time, h hint) bool {
	return !startedAt.IsZero() && !h.at.After(startedAt.Add(time.Second))
}

func (o *Observer) lookAtSandbox(ctx context.Context, id string) error {
	asOf := time.Now()
	b, err := o.o.Runtime.InspectSandbox(ctx, id)
	switch {
	case errors.Is(err, pod.NotFound):
		return o.o.Store.Observe(ctx, pod.Facts{GoneSandboxes: []pod.Gone{{ID: id}}})
	case err != nil:
		return err
	}
	return o.o.Store.Observe(ctx, pod.Facts{Sandboxes: []pod.Sandbox{b}, AsOf: asOf})
}
