// Package reconcile makes Podman agree with the store: it loads a pod, has
// lifecycle decide, records the decision, carries it out and records what came
// of it, until there is nothing left to do.
//
// It owns one goroutine a pod that has something to do, and while a plan runs
// one for each of its actions. Wake-ups come in, without payload; calls go out
// to the Runtime, Images and Volumes, rows to the Store.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/pod"
)

// Options are what a Loop needs. All are required but for the last three.
type Options struct {
	Store   Store
	Runtime Runtime
	Images  Images
	Volumes Volumes
	// Node is the node's identity, which labels carry.
	Node string
	// HostIPs gives the node's addresses, primary first. It must not block.
	HostIPs func() []string
	Log     *slog.Logger
	// Parallel bounds the runtime calls at a time; 0 is 8. Waiting for a
	// container to stop does not count: it costs the runtime nothing.
	Parallel int
	// CallTimeout is the deadline of a runtime call, not counting a grace
	// period; 0 is kubelet's 2 min.
	CallTimeout time.Duration
	// Now is the wall clock, which may jump; nil: time.Now.
	Now func() time.Time
}

// Loop runs the workers.
type Loop struct {
	o     Options
	slots chan struct{}

	mu      sync.Mutex
	ctx     context.Context // nil before Run and after it
	workers map[types.UID]*worker
	timers  map[types.UID]*time.Timer
	wg      sync.WaitGroup
}

// worker is the one goroutine of a pod. The bell rings when the pod changed.
type worker struct {
	bell   chan struct{}
	rounds int // in a row that may have made no headway
}

// New makes a loop; Run starts it.
func New(o Options) *Loop {
	if o.Parallel == 0 {
		o.Parallel = 8
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 2 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Loop{o: o, slots: make(chan struct{}, o.Parallel), workers: map[types.UID]*worker{}, timers: map[types.UID]*time.Timer{}}
}

// Run looks at every pod once, then at those that are woken, until ctx ends. It
// returns when every worker has stopped; containers are left as they are.
func (l *Loop) Run(ctx context.Context) error {
	l.mu.Lock()
	l.ctx = ctx
	l.mu.Unlock()
	err := l.Resync(ctx)
	if err == nil {
		<-ctx.Done()
	}
	l.mu.Lock()
	l.ctx = nil
	for _, t := range l.timers {
		t.Stop()
	}
	clear(l.timers)
	l.mu.Unlock()
	l.wg.Wait()
	return err
}

// Resync wakes every desired pod, and what was observed of pods that nobody
// desires.
func (l *Loop) Resync(ctx context.Context) error {
	uids, err := l.o.Store.UIDs(ctx)
	if err != nil {
		return err
	}
	orphans, err := l.o.Store.Orphans(ctx)
	if err != nil {
		return err
	}
	for _, o := range orphans {
		uids = append(uids, uidOf(o))
	}
	l.Wake(uids...)
	return nil
}

func uidOf(o pod.Observation) types.UID {
	if len(o.Sandboxes) > 0 {
		return o.Sandboxes[0].UID
	}
	if len(o.Containers) > 0 {
		return o.Containers[0].UID
	}
	return ""
}

// Wake has the pods looked at. It never blocks. Before Run and after it, it
// does nothing: Run looks at every pod.
func (l *Loop) Wake(uids ...types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		return
	}
	for _, uid := range uids {
		if t := l.timers[uid]; t != nil {
			t.Stop()
			delete(l.timers, uid)
		}
		w := l.workers[uid]
		if w == nil {
			w = &worker{bell: make(chan struct{}, 1)}
			l.workers[uid] = w
			ctx := l.ctx
			l.wg.Go(func() { l.work(ctx, uid, w) })
			continue
		}
		select {
		case w.bell <- struct{}{}:
		default:
		}
	}
}

// Bounds on a worker that makes no headway: a runtime that reports success and
// changes nothing must not be asked in a tight loop. After so many rounds it
// pauses before each, twice as long every time, until there is nothing to do.
// The pauses are shorter than a pull goes on that nobody waits for.
const (
	roundsAtOnce  = 20
	roundPause    = time.Second
	maxRoundPause = 20 * time.Second
	storePause    = time.Second
)

// work steps until the pod is idle. It leaves only under the lock and with the
// bell silent, so that no wake-up is lost.
func (l *Loop) work(ctx context.Context, uid types.UID, w *worker) {
	delay := roundPause
	for ctx.Err() == nil {
		w.rounds++
		wait, busy := l.step(ctx, uid, w)
		if busy {
			if w.rounds > roundsAtOnce {
				l.o.Log.Warn("pod does not settle", "pod_uid", uid, "rounds", w.rounds)
				l.pause(ctx, uid, w, delay)
				delay = min(2*delay, maxRoundPause)
			}
			continue
		}
		l.mu.Lock()
		select {
		case <-w.bell:
			l.mu.Unlock()
			continue
		default:
		}
		delete(l.workers, uid)
		if wait > 0 && l.ctx != nil {
			l.timers[uid] = time.AfterFunc(wait, func() { l.Wake(uid) })
		}
		l.mu.Unlock()
		return
	}
	l.mu.Lock()
	delete(l.workers, uid)
	l.mu.Unlock()
}

// pause waits, but no longer than until something else is desired.
func (l *Loop) pause(ctx context.Context, uid types.UID, w *worker, d time.Duration) {
	before, err := l.o.Store.Load(ctx, uid)
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-w.bell:
			if err == nil && l.outdated(ctx, before) {
				return
			}
		}
	}
}

// step decides once and carries the plan through. busy asks for another step at
// once; otherwise wait is how long until the next, zero for ever. It is a
// duration because the wall clock may jump before it is over.
func (l *Loop) step(ctx context.Context, uid types.UID, w *worker) (wait time.Duration, busy bool) {
	now := l.o.Now()
	snap, err := l.o.Store.Load(ctx, uid)
	if errors.Is(err, pod.NotFound) {
		return l.discard(ctx, uid, w)
	}
	if err != nil {
		return l.storeFailed(ctx, uid, err)
	}
	d := lifecycle.Next(snap, now)
	rec, err := l.decided(snap, d, now)
	if err != nil {
		l.o.Log.Error("decision refused by the state machine", "pod", snap.Desired.Key.String(), "err", err)
		return lifecycle.BackoffMax, false
	}
	if rec != nil {
		if err := l.o.Store.Commit(ctx, *rec); errors.Is(err, pod.Conflict) || errors.Is(err, pod.NotFound) {
			return 0, true
		} else if err != nil {
			return l.storeFailed(ctx, uid, err)
		}
		if rec.State != "" {
			snap.Desired.State = rec.State
		}
	}
	if len(d.Actions) == 0 {
		if !d.Again.IsZero() {
			wait = max(d.Again.Sub(now), 1)
		}
		return wait, rec != nil && d.Event != ""
	}
	r := l.carryOut(ctx, snap, d.Actions, w)
	if ctx.Err() != nil {
		return 0, false
	}
	if out := r.outcome(l.o.Now()); out != nil {
		if err := l.o.Store.Commit(ctx, *out); err != nil && !errors.Is(err, pod.Conflict) && !errors.Is(err, pod.NotFound) {
			return l.storeFailed(ctx, uid, err)
		}
	}
	return 0, true
}

// storeFailed waits: without a record of intent nothing destructive is done.
func (l *Loop) storeFailed(ctx context.Context, uid types.UID, err error) (time.Duration, bool) {
	if ctx.Err() == nil {
		l.o.Log.Error("store not usable; pod left as it is", "pod_uid", uid, "err", err)
	}
	return storePause, false
}

// discard removes what was observed of a pod that nobody desires. There is
// nothing to record it against but the facts.
func (l *Loop) discard(ctx context.Context, uid types.UID, w *worker) (time.Duration, bool) {
	orphans, err := l.o.Store.Orphans(ctx)
	if err != nil {
		return l.storeFailed(ctx, uid, err)
	}
	for _, o := range orphans {
		if uidOf(o) != uid {
			continue
		}
		l.o.Log.Warn("removing a pod that no source wants", "pod_uid", uid)
		d := lifecycle.Discard(o, "no source wants it", l.o.Now())
		r := l.carryOut(ctx, pod.Snapshot{Desired: pod.Desired{UID: uid}, Observed: o}, d.Actions, w)
		if len(r.failures) > 0 {
			l.o.Log.Error("a pod that no source wants can't be removed", "pod_uid", uid, "err", r.failures[0].err)
			return lifecycle.BackoffBase, false
		}
	}
	return 0, false
}
