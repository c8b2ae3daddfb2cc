package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/pod"
)

// errSurprised marks an action whose plan did not know what it met: what comes
// after it is not taken but planned again.
var errSurprised = errors.New("the plan was made without knowing this")

// errSkipped marks an action that was not taken because one before it failed.
var errSkipped = errors.New("an earlier action failed")

// made is what earlier actions of a plan hand to the making of a container.
type made struct {
	attempt   int
	sandboxID string
	imageID   string
	volumes   map[string]string
}

type failure struct {
	action lifecycle.Action
	err    error
}

// run is one plan being carried out.
type run struct {
	l     *Loop
	snap  pod.Snapshot
	began time.Time // by the monotonic clock

	mu        sync.Mutex
	sandboxID string
	created   map[string]string // container → ID
	images    map[string]string // container → image ID
	volumes   map[string]string
	facts     []pod.Facts // not yet written
	events    []pod.Event
	failures  []failure
	succeeded []lifecycle.Action
	forget    bool

	writing sync.Mutex // held while facts are written, to keep their order
}

// carryOut takes the actions as their order allows, and returns when all have
// ended. A change of what is desired cancels what is left; so does any other, as
// soon as nothing is under way but a pull, which goes on while it is planned
// again: a registry must not hold up the restart of another container. It returns
// only when what was learnt is stored.
func (l *Loop) carryOut(ctx context.Context, snap pod.Snapshot, actions []lifecycle.Action, w *worker) *run {
	r := &run{l: l, snap: snap, began: time.Now(), created: map[string]string{}, images: map[string]string{}}
	defer r.writeAll(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make([]chan struct{}, len(actions))
	errs := make([]error, len(actions))
	for i := range actions {
		done[i] = make(chan struct{})
	}
	var all sync.WaitGroup
	left := follow(actions)
	for i, a := range actions {
		all.Go(func() {
			defer left.end(i)
			for _, j := range a.After {
				<-done[j]
				if errs[j] != nil {
					errs[i] = errSkipped
				}
			}
			if errs[i] != nil {
				close(done[i])
				return
			}
			errs[i] = r.take(ctx, a)
			close(done[i])
			if errs[i] == nil && a.Op == lifecycle.OpStartSandbox {
				r.inspectSandbox(ctx, a)
			}
			r.write(ctx)
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	rang := false
	for {
		select {
		case <-ended:
			return r
		case <-w.bell:
			rang = true
			if l.outdated(ctx, snap) {
				cancel()
			}
		case <-left.ended:
		}
		if rang && left.onlyPulls() {
			rang = false
			w.rounds = 0 // it waits for a registry
			cancel()
		}
	}
}

// outdated reports whether the plan was made for something else than what is
// desired now.
func (l *Loop) outdated(ctx context.Context, snap pod.Snapshot) bool {
	now, err := l.o.Store.Load(ctx, snap.Desired.UID)
	if err != nil {
		return false
	}
	was, is := snap.Desired.Deletion, now.Desired.Deletion
	return now.Desired.Generation != snap.Desired.Generation || (was == nil) != (is == nil) ||
		(was != nil && (was.Grace != is.Grace || !was.RequestedAt.Equal(is.RequestedAt)))
}

// take carries out one action and keeps what came of it. A cancelled action is
// neither a success nor a failure: the next plan starts from what Podman has.
func (r *run) take(ctx context.Context, a lifecycle.Action) error {
	err := r.do(ctx, a)
	r.mu.Lock()
	switch {
	case err == nil:
		r.succeeded = append(r.succeeded, a)
	case ctx.Err() == nil && !errors.Is(err, errSurprised):
		r.failures = append(r.failures, failure{action: a, err: err})
	}
	r.mu.Unlock()
	if err == nil && a.Then != nil {
		r.writeAll(ctx) // the end comes before what follows from it
		return r.commitThen(ctx, *a.Then)
	}
	return err
}

func (r *run) commitThen(ctx context.Context, t pod.Transition) error {
	rec := newRecord(r.snap.Desired)
	stampTransition(&t, r.snap.Desired, r.l.o.Now())
	rec.Transitions = []pod.Transition{t}
	return r.l.o.Store.Commit(ctx, rec)
}

// do makes the calls of one action.
func (r *run) do(ctx context.Context, a lifecycle.Action) error {
	switch a.Op {
	case lifecycle.OpEnsureImage:
		return r.ensureImage(ctx, a)
	case lifecycle.OpStopContainer:
		_, err := r.stopContainer(ctx, a)
		return err
	case lifecycle.OpRemoveContainer:
		if a.MayRun {
			if err := r.stopUnstarted(ctx, a); err != nil {
				return err
			}
		}
	case lifecycle.OpForget:
		r.mu.Lock()
		r.forget = true
		r.mu.Unlock()
		return nil
	}
	select {
	case r.l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.l.slots }()
	ctx, cancel := context.WithTimeout(ctx, r.l.o.CallTimeout)
	defer cancel()
	switch a.Op {
	case lifecycle.OpPrepareVolumes:
		return r.prepareVolumes(ctx)
	case lifecycle.OpCreateSandbox:
		return r.createSandbox(ctx, a)
	case lifecycle.OpStartSandbox:
		return r.startSandbox(ctx, a)
	case lifecycle.OpStopSandbox:
		return r.stopSandbox(ctx, a)
	case lifecycle.OpRemoveSandbox:
		return r.removeSandbox(ctx, a)
	case lifecycle.OpCreateContainer:
		return r.createContainer(ctx, a)
	case lifecycle.OpStartContainer:
		return r.startContainer(ctx, a)
	case lifecycle.OpRemoveContainer:
		return r.removeContainer(ctx, a)
	case lifecycle.OpRemoveVolumes:
		return r.l.o.Volumes.Remove(ctx, r.snap.Desired.UID)
	}
	return &pod.Error{Class: pod.Internal, Op: "carry out", Object: string(a.Op), Err: errors.New("no such operation")}
}

// observed queues facts. They are written in the order of this call, after the
// actions waiting for them have been let go: no start waits for SQLite.
func (r *run) observed(f pod.Facts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts = append(r.facts, f)
}

// writeAll waits until the store takes what it could not: the next plan must not
// be made without it, or what was done is done again.
func (r *run) writeAll(ctx context.Context) {
	for !r.write(ctx) {
		select {
		case <-ctx.Done():
			return // a listing will find it again
		case <-time.After(storePause):
		}
	}
}

// write writes the facts queued so far. What a run cut short has learnt is
// written too. Facts that can't be written for now are kept, and it returns false.
func (r *run) write(ctx context.Context) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	queued := r.facts
	r.facts = nil
	r.mu.Unlock()
	if len(queued) == 0 {
		return true
	}
	f := pod.Facts{AsOf: r.began}
	for _, q := range queued {
		f.Sandboxes = append(f.Sandboxes, q.Sandboxes...)
		f.Containers = append(f.Containers, q.Containers...)
		f.GoneSandboxes = append(f.GoneSandboxes, q.GoneSandboxes...)
		f.GoneContainers = append(f.GoneContainers, q.GoneContainers...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := r.l.o.Store.Observe(ctx, f)
	if err == nil {
		return true
	}
	r.l.o.Log.Error("what the runtime returned could not be stored", "pod_uid", r.snap.Desired.UID, "err", err)
	if !errors.Is(err, pod.Unavailable) {
		return true // it never will be
	}
	r.mu.Lock()
	r.facts = slices.Concat(queued, r.facts)
	r.mu.Unlock()
	return false
}

func (r *run) event(e pod.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *run) desiredContainer(name string) (pod.DesiredContainer, *corev1.Container) {
	i := slices.IndexFunc(r.snap.Desired.Containers, func(c pod.DesiredContainer) bool { return c.Name == name })
	return r.snap.Desired.Containers[i], findContainer(r.snap.Desired.Pod, name)
}
