package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// wall is the clock on the wall. It is set, and time itself goes on.
type wall struct{ ahead atomic.Int64 }

func (c *wall) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())).Round(0) }

func (c *wall) jump(d time.Duration) { c.ahead.Add(int64(d)) }

// Delays of whoever starts the agent, and of clients that try again.
const (
	startAgain = 5 * time.Second
	tryAgain   = time.Second
)

// world is the machine that the agent runs on, and everyone around it.
type world struct {
	t      *testing.T
	plan   plan
	begun  time.Time
	fake   *runtimetest.Fake
	clock  wall
	wishes *wishes
	trace  trace
	noise  *rand.Rand

	root  string
	dir   string // of the agent that lives, or of the next
	life  int    // counts agents
	boots int    // counts starts of the machine
	agent *agent // nil: none runs
	gate  *gate  // of the agent, or of the one that is being started
	// startAt is when the next agent starts; fuse is what it has to live.
	startAt time.Time
	fuse    int
	full    bool
	synced  mark      // what the disk has for certain of the log of the agent before
	retryAt time.Time // when clients try again; zero: nobody waits

	// powered ends with the power; what was asked of the runtime ends with it.
	powered    context.Context //nolint:containedctx // it is a state of the machine
	cutPower   context.CancelFunc
	stragglers sync.WaitGroup

	disturbed time.Time // since when something was out of order; zero: nothing is
	spans     []span    // of time in which something was
	timers    []timed
	cuts      []time.Time // of the power, that lost what was recorded
	found     []finding
	stats     stats
}

// finding is something that is wrong, and of what kind.
type finding struct{ kind, text string }

// span is a stretch of time.
type span struct{ from, to time.Time }

// timed is something that ends by itself.
type timed struct {
	at time.Time
	do func()
}

func newWorld(t *testing.T, p plan, root string) *world {
	w := &world{t: t, plan: p, begun: time.Now(), wishes: newWishes(), root: root, noise: rand.New(rand.NewPCG(p.Seed, 1)), stats: stats{Seeds: 1, Acts: map[act]int{}}}
	w.trace.begun = w.begun
	w.fake = runtimetest.New(runtimetest.Options{Node: nodeID, Latency: runtimetest.PodmanLatency, Now: w.clock.now})
	for _, name := range []string{busybox, nginx} {
		w.fake.Images().Add(name)
		w.fake.Images().SetRegistry(name, runtimetest.Registry{Answer: runtimetest.RegistryHas, Takes: 2 * time.Second})
	}
	w.powered, w.cutPower = context.WithCancel(t.Context())
	w.dir = filepath.Join(root, "life-0")
	w.must(os.Mkdir(w.dir, 0o700))
	if !p.Fresh {
		w.must(os.WriteFile(filepath.Join(w.dir, databaseFile), template(), 0o600))
	}
	return w
}

// must is for what no plan can bring about.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.plan.Seed, err)
	}
}

// wrong notes that an invariant does not hold.
func (w *world) wrong(format string, args ...any) {
	f := finding{format, w.at(time.Now()) + ": " + fmt.Sprintf(format, args...)}
	w.found = append(w.found, f)
	w.trace.add("WRONG", f.text, "")
}

func (w *world) at(t time.Time) string { return t.Sub(w.begun).Round(time.Millisecond).String() }

// close ends everything, so that the bubble can end.
func (w *world) close() {
	w.stopAgent()
	w.cutPower()
	w.stragglers.Wait()
	w.fake.Close()
	w.stats.Simulated = time.Since(w.begun)
	w.must(os.RemoveAll(w.root))
}

// start starts an agent. One that is killed meanwhile, or fails, is started
// again by whoever watches it.
func (w *world) start() {
	w.life++
	w.stats.Lives++
	g := &gate{path: filepath.Join(w.dir, databaseFile), died: make(chan struct{}), fuse: w.fuse, full: w.full, synced: w.synced}
	g.onDie = func() { w.leave(g) }
	w.fuse = 0
	w.gate = g
	dir := w.dir
	gates.Store(dir, g)
	a, err := newAgent(w, dir, g)
	switch {
	case g.isDead():
		if a != nil {
			w.agent = a
		}
		w.bury(w.pause())
		return
	case err != nil:
		w.trace.add("agent", "does not start", err.Error())
		if w.disturbed.IsZero() {
			w.wrong("the agent does not start: %v", err)
		}
		gates.Delete(dir)
		w.gate = nil
		w.startAt = time.Now().Add(startAgain)
		return
	}
	w.agent = a
	w.trace.add("agent", "starts", fmt.Sprint(w.life))
	w.checkPromises()
}

// leave copies what an agent leaves that is killed at this moment.
func (w *world) leave(g *gate) {
	w.trace.add("agent", "is killed", "")
	w.dir = filepath.Join(w.root, fmt.Sprintf("life-%d", w.life))
	if err := copyFiles(filepath.Dir(g.path), w.dir); err != nil {
		panic(err)
	}
}

// pause is how long an agent that was killed stays away.
func (w *world) pause() time.Time {
	if w.startAt.After(time.Now()) {
		return w.startAt
	}
	return time.Now().Add(startAgain)
}

// bury puts away what is left of an agent that was killed.
func (w *world) bury(startAt time.Time) {
	if a := w.agent; a != nil {
		a.end() //nolint:errcheck // it is dead
		w.agent = nil
	}
	w.count()
	old := filepath.Dir(w.gate.path)
	gates.Delete(old)
	w.must(os.RemoveAll(old))
	w.gate = nil
	w.startAt = startAt
}

// kill kills the agent now, wherever it is.
func (w *world) kill(startAt time.Time) {
	if w.gate == nil {
		w.startAt = startAt
		return
	}
	w.gate.killNow()
	w.bury(startAt)
}

// stopAgent ends it in good order.
func (w *world) stopAgent() {
	if w.agent == nil {
		return
	}
	err := w.agent.end()
	if w.gate.isDead() { // on the way
		w.bury(w.pause())
		w.agent = nil
		return
	}
	if err != nil && w.disturbed.IsZero() {
		w.wrong("the agent does not stop: %v", err)
	}
	w.count()
	gates.Delete(w.dir)
	w.agent, w.gate = nil, nil
}

func (w *world) count() {
	points, commits := w.gate.counts()
	w.synced = w.gate.synced
	w.stats.Points += points
	w.stats.Commits += commits
}

// until lets time pass. Meanwhile agents start that are due, and clients try
// again what failed.
func (w *world) until(at time.Time) {
	for {
		if w.agent == nil && !w.startAt.After(time.Now()) {
			w.start()
			continue
		}
		if !w.retryAt.IsZero() && !w.retryAt.After(time.Now()) {
			w.ask()
		}
		for len(w.timers) > 0 && !w.timers[0].at.After(time.Now()) {
			t := w.timers[0]
			w.timers = w.timers[1:]
			t.do()
		}
		synctest.Wait()
		if w.gate != nil && w.gate.isDead() {
			w.bury(w.pause())
			continue
		}
		if !time.Now().Before(at) {
			return
		}
		w.sleep(at)
	}
}

// sleep waits for the next thing that is due, or for the agent's end.
func (w *world) sleep(next time.Time) {
	if w.agent == nil && w.startAt.Before(next) {
		next = w.startAt
	}
	if !w.retryAt.IsZero() && w.retryAt.Before(next) {
		next = w.retryAt
	}
	if len(w.timers) > 0 && w.timers[0].at.Before(next) {
		next = w.timers[0].at
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	var died chan struct{}
	var failed chan error
	if w.agent != nil {
		died, failed = w.gate.died, w.agent.failed
	}
	select {
	case <-timer.C:
	case <-died:
	case err := <-failed:
		if isCrash(err) || w.gate.isDead() {
			return
		}
		w.trace.add("agent", "gives up", err.Error())
		if w.disturbed.IsZero() {
			w.wrong("the agent gives up: %v", err)
		}
		w.stopAgent()
		w.startAt = time.Now().Add(startAgain)
	}
}

// later does something after a while.
func (w *world) later(d time.Duration, do func()) {
	t := timed{time.Now().Add(d), do}
	i := len(w.timers)
	for i > 0 && w.timers[i-1].at.After(t.at) {
		i--
	}
	w.timers = append(w.timers[:i], append([]timed{t}, w.timers[i:]...)...)
}

// ask has every client that waits for an answer try.
func (w *world) ask() {
	w.retryAt = time.Time{}
	keys, list := w.wishes.pending()
	for i, n := range list {
		if w.agent == nil || w.gate.isDead() || !w.tell(keys[i], n) {
			w.retryAt = time.Now().Add(tryAgain)
			continue
		}
		w.wishes.acknowledge(list[i : i+1])
		w.retryAt = time.Now() // the next of this client
	}
}

// tell reports whether the agent acknowledged the wish.
func (w *world) tell(key pod.Key, n *wish) bool {
	var err error
	if n.Shape != nil {
		_, err = w.agent.store.Submit(w.t.Context(), overHTTP, n.set.Pods)
	} else {
		err = w.agent.store.Withdraw(w.t.Context(), overHTTP, key, n.grace)
		if errors.Is(err, pod.NotFound) {
			err = nil
		}
	}
	w.trace.add("client", key.Name, fmt.Sprint(err))
	if w.gate.isDead() {
		return false // whatever was done, nobody heard
	}
	if err != nil && w.disturbed.IsZero() {
		w.wrong("the agent refuses %s: %v", key, err)
	}
	return err == nil
}

// disturb notes that from now on things may go wrong.
func (w *world) disturb() {
	if w.disturbed.IsZero() {
		w.disturbed = time.Now()
	}
}

// settled notes that everything is in order again.
func (w *world) settled() {
	if !w.disturbed.IsZero() {
		w.spans = append(w.spans, span{w.disturbed, time.Now()})
		w.disturbed = time.Time{}
	}
}
