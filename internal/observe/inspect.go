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

// A look that failed is tried again after a pause, which doubles while it fails.
const (
	retryMin    = time.Second
	retryMax    = time.Minute
	retryRelist = 5 * time.Second // at most, for a listing
)

// trouble is a look that failed the last time.
type trouble struct {
	delay time.Duration // until it is tried again
	told  bool          // it was logged
}

// storeFailure marks a failure of the store, which says nothing of Podman.
type storeFailure struct{ error }

func (f storeFailure) Unwrap() error { return f.error }

func (o *Observer) observe(ctx context.Context, f pod.Facts) error {
	return ofStore(o.o.Store.Observe(ctx, f))
}

func ofStore(err error) error {
	if err == nil {
		return nil
	}
	return storeFailure{err}
}

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
	delay, back := o.report(id, err)
	if err != nil {
		wait(ctx, delay, back)
		o.claim(id) // has it looked at again once it is released
	}
}

// report notes how a look went. It returns how long to wait for another try, and
// what ends that wait.
func (o *Observer) report(id string, err error) (delay time.Duration, back <-chan struct{}) {
	var ofStore storeFailure
	unstored := errors.As(err, &ofStore)
	if id == relistKey && !unstored {
		o.note(&o.listing, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.failing[id]
	if err == nil {
		delete(o.failing, id)
		if was.told {
			o.o.Log.Info("what could not be observed can be again", "of", look(id))
		}
		return 0, nil
	}
	now := trouble{delay: min(max(2*was.delay, retryMin), retryMax), told: true}
	if id == relistKey {
		now.delay = min(now.delay, retryRelist)
	}
	switch {
	case was.told:
	case unstored:
		o.o.Log.Warn("what Podman has can't be stored; trying again", "of", look(id), "err", err)
	case o.stream == nil:
		o.o.Log.Warn("Podman can't be observed; trying again", "of", look(id), "err", err)
	default:
		now.told = false // that Podman is away was logged, and so everything fails
	}
	o.failing[id] = now
	return now.delay, o.back
}

// look names what is looked at.
func look(id string) string {
	switch id {
	case relistKey:
		return "everything"
	case imagesKey:
		return "images"
	default:
		return id
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
	return ofStore(o.o.Store.ObserveImages(ctx, images))
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
		return o.observe(ctx, pod.Facts{GoneSandboxes: []pod.Gone{{ID: id}}})
	case h.sandbox:
		stored, err := o.o.Store.Sandbox(ctx, id)
		if err == nil && knownSandbox(stored, h) {
			return nil
		}
		return o.lookAtSandbox(ctx, id)
	case h.kind == pod.EventRemoved:
		return o.observe(ctx, pod.Facts{GoneContainers: []pod.Gone{{ID: id}}})
	}
	stored, err := o.o.Store.Container(ctx, id)
	if err != nil && !errors.Is(err, pod.NotFound) {
		return ofStore(err)
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
		return o.observe(ctx, pod.Facts{GoneContainers: []pod.Gone{{ID: id}}})
	case err != nil:
		return err
	case c.Kind == pod.KindSandbox:
		return o.lookAtSandbox(ctx, c.SandboxID)
	}
	if h.user && !c.State.Live() {
		c.EndCause, c.EndDetail = pod.CauseUser, "stopped in Podman"
	}
	return o.observe(ctx, pod.Facts{Containers: []pod.Container{c}, AsOf: asOf})
}

// known reports whether the event says no more than what is stored.
func known(c pod.Container, h hint) bool {
	switch h.kind {
	case pod.EventCreated:
		return true
	case pod.EventStarted:
		return startKnown(c.StartedAt, h.at)
	case pod.EventDied:
		return c.State == pod.RunExited && (h.started.IsZero() || startKnown(c.StartedAt, h.started))
	default:
		return false
	}
}

func knownSandbox(b pod.Sandbox, h hint) bool {
	return h.kind == pod.EventCreated || (h.kind == pod.EventStarted && startKnown(b.StartedAt, h.at))
}

// startKnown reports whether an event is about the start that is stored: it is
// within a second of it. One that is farther off is another start, though it may
// seem earlier: the clock may have been set back.
func startKnown(startedAt, event time.Time) bool {
	return !startedAt.IsZero() && event.Sub(startedAt).Abs() <= time.Second
}

func (o *Observer) lookAtSandbox(ctx context.Context, id string) error {
	asOf := time.Now()
	b, err := o.o.Runtime.InspectSandbox(ctx, id)
	switch {
	case errors.Is(err, pod.NotFound):
		return o.observe(ctx, pod.Facts{GoneSandboxes: []pod.Gone{{ID: id}}})
	case err != nil:
		return err
	}
	return o.observe(ctx, pod.Facts{Sandboxes: []pod.Sandbox{b}, AsOf: asOf})
}
