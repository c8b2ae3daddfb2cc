// Package observe writes what Podman has into the observed tables: at once when
// Podman's event stream says that something happened, and by a full listing
// when the stream opens and every so often after that.
//
// An Observer owns three goroutines while it runs: one follows the stream, one
// hands out what wants attention, one asks for listings; and one more for each
// thing being looked at. Events come in; facts go to the store.
package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"podstead.io/podstead/internal/notify"
	"podstead.io/podstead/internal/pod"
)

// Options are what an Observer needs.
type Options struct {
	Runtime Runtime
	Store   Store
	Log     *slog.Logger
	// Relist is the time between full listings while the stream is open. They
	// find what the stream lost, at the price of 30–40 ms of Podman's CPU each.
	Relist time.Duration
	// Rebooted reports whether the machine was restarted since the last listing
	// that was stored; the next one says so.
	Rebooted func() bool
	// CallTimeout is the deadline of each call; 0 is kubelet's 2 min.
	CallTimeout time.Duration
}

// relistKey stands for a full listing among the IDs that want attention.
const relistKey = ""

// Delays before the stream is opened again.
const (
	reopenMin = 100 * time.Millisecond
	reopenMax = time.Second
	// steady is how long a stream has to have been open for the next to be
	// opened at once.
	steady = 5 * time.Second
)

// Observer follows one runtime.
type Observer struct {
	o      Options
	dirty  notify.Keys[string]
	synced chan struct{}

	mu    sync.Mutex
	hints map[string]hint
	// busy has the IDs that are being looked at, true for those named again
	// meanwhile.
	busy map[string]bool
	// stream is what is wrong with the event stream, listing with the last
	// listing; nil: nothing.
	stream, listing error
	// listingSince is when the listing that is under way began; zero: none is.
	listingSince time.Time
	listed       bool // once at least
	// outages counts how often Podman was found to give no answer, the start of
	// the agent included, and ended how many of these a listing has put an end to.
	outages, ended int
	// back is closed, and made anew, when the stream opens.
	back chan struct{}
	// failing has the looks that failed the last time.
	failing map[string]trouble
}

// hint is what the events since an ID was last looked at said of it.
type hint struct {
	kind    pod.EventKind
	at      time.Time
	started time.Time // of the latest start among them
	user    bool      // someone asked Podman to stop or kill it
	sandbox bool      // the ID is a Podman pod's
}

// New makes an observer; Run starts it.
func New(o Options) *Observer {
	if o.CallTimeout == 0 {
		o.CallTimeout = 2 * time.Minute
	}
	return &Observer{
		o: o, synced: make(chan struct{}), hints: map[string]hint{}, busy: map[string]bool{},
		back: make(chan struct{}), failing: map[string]trouble{},
		stream:  &pod.Error{Class: pod.Unavailable, Op: "follow Podman's events", Err: errors.New("not connected yet")},
		listing: &pod.Error{Class: pod.Unavailable, Op: "observe Podman", Err: errors.New("not listed yet")},
	}
}

// Synced is closed once the first full listing has been written.
func (o *Observer) Synced() <-chan struct{} { return o.synced }

// hungAfter is how long a listing may take until Podman counts as hung. A busy
// one needs seconds; the call's own deadline is far off, for it costs Podman more
// to be asked again than to answer late.
const hungAfter = 20 * time.Second

// Health is nil while the stream is open, the last listing succeeded and the one
// under way, if any, is not overdue.
func (o *Observer) Health() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream != nil {
		return o.stream
	}
	if took := time.Since(o.listingSince); !o.listingSince.IsZero() && took > hungAfter {
		return &pod.Error{Class: pod.Unavailable, Op: "observe Podman", Err: fmt.Errorf("it has given no answer for %s", took.Truncate(time.Second))}
	}
	return o.listing
}

// listingBegins notes when a listing begins, until the returned function is
// called.
func (o *Observer) listingBegins(at time.Time) (ends func()) {
	set := func(at time.Time) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.listingSince = at
	}
	set(at)
	return func() { set(time.Time{}) }
}

// Resync asks for a full listing.
func (o *Observer) Resync() { o.dirty.Add(relistKey) }

// Run observes until ctx ends. A runtime that can't be reached is tried again
// for ever; Health tells.
func (o *Observer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { o.inspect(ctx) })
	wg.Go(func() { o.relist(ctx) })
	delay := reopenMin
	for ctx.Err() == nil {
		opened := time.Now()
		err := o.o.Runtime.Events(ctx, time.Time{}, o.opened, o.event)
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			err = &pod.Error{Class: pod.Unavailable, Op: "follow Podman's events", Err: errors.New("the stream ended")}
		}
		if o.note(&o.stream, err) {
			o.o.Log.Warn("Podman's event stream broke; opening it again", "err", err)
		}
		if time.Since(opened) > steady {
			delay = reopenMin
		}
		wait(ctx, delay, nil)
		delay = min(2*delay, reopenMax)
	}
	wg.Wait()
	return nil
}

// wait ends early when the channel is closed.
func wait(ctx context.Context, d time.Duration, early <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-early:
	case <-t.C:
	}
}

// opened lists everything: what happened while there was no stream is not told.
func (o *Observer) opened() {
	o.note(&o.stream, nil)
	o.Resync()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outages++
	close(o.back)
	o.back = make(chan struct{})
}

// note keeps the latest outcome, and reports whether it is news.
func (o *Observer) note(last *error, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.outages++
	}
	news := (*last == nil) != (err == nil)
	*last = err
	return news
}

// event notes what an event is about. Several before the next look are one.
func (o *Observer) event(e pod.RuntimeEvent) {
	id := e.ID
	if e.Kind == pod.EventImage {
		id = imagesKey
	} else if e.SandboxID != "" {
		id = e.SandboxID
	}
	o.mu.Lock()
	h := o.hints[id]
	h.user = h.user || e.Kind == pod.EventStopped
	h.kind, h.at, h.sandbox = e.Kind, e.At, e.SandboxID != ""
	if e.Kind == pod.EventStarted {
		h.started = e.At
	}
	o.hints[id] = h
	o.mu.Unlock()
	o.dirty.Add(id)
}

func (o *Observer) takeHint(id string) hint {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.hints[id]
	delete(o.hints, id)
	return h
}

// giveBack puts a hint back whose look failed; what came since goes before.
func (o *Observer) giveBack(id string, h hint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if newer, ok := o.hints[id]; ok {
		newer.user = newer.user || h.user
		if newer.started.IsZero() {
			newer.started = h.started
		}
		h = newer
	}
	o.hints[id] = h
}
