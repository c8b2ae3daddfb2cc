package e2e

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // reads what a dead agent leaves behind

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// rig is an agent whose steps are watched, and a witness of what runs.
type rig struct {
	*agent
	track *track

	mu     sync.Mutex // held while the agent is started or struck
	struck int        // blows so far, which name copies of the database
}

// victim is who is struck, and how.
type victim struct {
	name string
	// agent and podman say who is dead until mended.
	agent, podman bool
	strike        func(*rig)
	mend          func(*testing.T, *rig)
}

// How long Podman gives no sign of life: a moment, and longer than the agent's
// deadline for a call, so that it gives up calls which are made all the same.
const (
	hang     = 3 * time.Second
	longHang = 130 * time.Second
)

var (
	agentKilled = victim{
		name: "agent killed", agent: true,
		strike: func(r *rig) { r.kill() },
		mend:   func(t *testing.T, r *rig) { r.launchAgain(t) },
	}
	podmanKilled = victim{
		name: "Podman killed", podman: true,
		strike: func(r *rig) { r.track.shut(); r.host.Kill() },
		mend:   func(t *testing.T, r *rig) { r.host.Start(); r.track.open(t) },
	}
	podmanStopped = victim{
		name: "Podman stopped", podman: true,
		strike: func(r *rig) { r.host.Stop(); r.track.shut() },
		mend:   func(t *testing.T, r *rig) { r.host.Start(); r.track.open(t) },
	}
	bothKilled = victim{
		name: "both killed", agent: true, podman: true,
		strike: func(r *rig) { r.kill(); r.track.shut(); r.host.Kill() },
		mend:   func(t *testing.T, r *rig) { r.host.Start(); r.track.open(t); r.launchAgain(t) },
	}
)

// podmanHung has Podman hang for so long, which is part of what is tested.
func podmanHung(name string, hang time.Duration) victim {
	return victim{
		name:   name,
		strike: func(r *rig) { r.host.Pause() },
		mend: func(t *testing.T, r *rig) {
			time.Sleep(hang)
			if err := r.healthy("/healthz"); err != nil {
				t.Errorf("while Podman hung: %v", err)
			}
			r.host.Resume()
		},
	}
}

// operation is something that the agent does, and is interrupted in. Operations
// of a scene follow each other: one ends where the next begins.
type operation struct {
	name  string
	begin func(*testing.T, *rig)
	// done is nil once it has come to its end, by the agent's word.
	done func(*rig) error
	// check describes what is wrong then, by Podman's word and by the files.
	check func(*testing.T, *rig) []string
	// lives is how many lives containers may have had since the first operation of
	// the scene, by name, where that is more than one.
	lives map[string]int
}

// scene is a sequence of operations that is repeated, with a blow in each.
type scene struct {
	name       string
	victim     victim
	share      int // of all blows, in hundredths
	double     bool
	prepare    func(*testing.T, *rig)
	operations []operation
}

// blow is one interruption and what came of it.
type blow struct {
	scene, victim, operation string
	at                       []moment
	late                     bool // the moment did not come: it fell when all was done
	where                    string
	kinds                    int // how many kinds of step the operation has
	duplicates               int
	losses                   int
	needless                 int
	said                     []string
}

// play interrupts the operations of the scene n times, each at moments spread
// over what it did when nobody interrupted it.
func (s scene) play(t *testing.T, n int) {
	a := newAgent(t, podmanhost.Start(t), "--sync-frequency", "10s")
	r := &rig{agent: a, track: watchSteps(t, a)}
	a.start(t)
	if s.prepare != nil {
		s.prepare(t, r)
	}
	each := max(1, (n+len(s.operations)-1)/len(s.operations))
	moments, kinds := make([][]moment, len(s.operations)), make([]int, len(s.operations))
	r.witness.forget()
	for i, o := range s.operations {
		began := time.Now()
		r.track.record(nil)
		o.begin(t, r)
		eventually(t, s.name+": "+o.name, func() error { return o.done(r) })
		steps := r.track.recorded()
		moments[i], kinds[i] = spread(steps, time.Since(began), each), countKinds(steps)
		r.wantRight(t, o)
	}
	for round := range each {
		r.witness.forget()
		for i, o := range s.operations {
			at := []moment{moments[i][round]}
			if s.double {
				at = append(at, again(round))
			}
			b := blow{scene: s.name, victim: s.victim.name, operation: o.name, at: at, kinds: kinds[i]}
			r.interrupt(t, s.victim, o, &b)
			keep(b)
			if b.losses > 0 {
				return // what comes next has no ground to stand on
			}
		}
	}
}

func countKinds(steps []step) int {
	kinds := map[string]bool{}
	for _, s := range steps {
		kinds[s.kind] = true
	}
	return len(kinds)
}

func (r *rig) wantRight(t *testing.T, o operation) {
	t.Helper()
	if wrong := o.check(t, r); len(wrong) > 0 {
		t.Errorf("%s, without any interruption: %s", o.name, strings.Join(wrong, "; "))
	}
	if _, said := r.witness.beyond(o.lives); len(said) > 0 {
		t.Errorf("%s, without any interruption: %s", o.name, strings.Join(said, "; "))
	}
}

// interrupt begins the operation, strikes at the moments, mends, and judges how
// it ends.
func (r *rig) interrupt(t *testing.T, v victim, o operation, b *blow) {
	twice := len(r.witness.duplicates())
	before, _ := r.witness.beyond(o.lives)
	for i, m := range b.at {
		var left leftover
		p := &trap{moment: m, passes: !v.agent && !v.podman, sprung: make(chan struct{})}
		p.spring = func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			starting := r.track.starting()
			v.strike(r)
			if v.podman {
				r.witness.pardon(starting)
			}
			left = r.leftover(v)
		}
		r.track.record(p)
		if i == 0 {
			o.begin(t, r)
		} else {
			v.mend(t, r)
		}
		b.late = r.await(t, p, o) || b.late
		b.where = left.String()
	}
	r.track.record(nil)
	v.mend(t, r)
	err := await(patience, func() error {
		if err := r.healthy("/healthz"); err != nil {
			return err
		}
		return o.done(r)
	})
	b.losses, b.said = r.judge(t, o, err)
	after, said := r.witness.beyond(o.lives)
	if b.needless = max(after-before, 0); b.needless > 0 {
		b.said = append(b.said, said...)
	}
	doubles := r.witness.duplicates()[twice:]
	b.duplicates = len(doubles)
	b.said = append(b.said, doubles...)
	if len(b.said) > 0 {
		t.Errorf("%s in %s, %v (%s): %s", b.victim, b.operation, b.at, b.where, strings.Join(b.said, "; "))
	}
}

// judge counts and describes what is lacking, or left over, at the end.
func (r *rig) judge(t *testing.T, o operation, notDone error) (losses int, said []string) {
	if notDone != nil {
		return 1, []string{notDone.Error()}
	}
	said = o.check(t, r)
	return len(said), said
}

// await returns when the trap has been sprung, which it does itself when the
// operation is done before the moment has come.
func (r *rig) await(t *testing.T, p *trap, o operation) (late bool) {
	t.Helper()
	if p.after > 0 {
		defer time.AfterFunc(p.after, p.strike).Stop()
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; {
		select {
		case <-p.sprung:
			return late
		case <-tick.C:
		}
		if err := o.done(r); err == nil {
			late = true
			p.strike()
		} else if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s, and for the end of %s: %v", p.moment, o.name, err)
		}
	}
}

// launchAgain starts the agent and does not wait for it.
func (r *rig) launchAgain(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.launch(t)
}

// crash kills the agent and starts it again; what comes between is for a node
// whose agent is away.
func (r *rig) crash(t *testing.T, between func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kill()
	if between != nil {
		between()
	}
	r.launch(t)
}

// leftover is what Podman and the database have at the time of a blow.
type leftover struct {
	made, sandboxes, containers int
	database                    string // a directory with a copy, empty while the agent lives
	err                         error
}

func (r *rig) leftover(v victim) leftover {
	var l leftover
	l.sandboxes, l.containers = summary(r.witness.look())
	var stored []struct{ Names []string }
	content, err := os.ReadFile(filepath.Join(r.host.Dir, "root/overlay-containers/containers.json"))
	if err == nil {
		err = json.Unmarshal(content, &stored)
	}
	for _, c := range stored {
		if len(c.Names) > 0 && strings.HasPrefix(c.Names[0], "k8s_") {
			l.made++
		}
	}
	if v.agent {
		r.struck++
		l.database = filepath.Join(r.host.Dir, fmt.Sprint("struck-", r.struck))
		err = errors.Join(err, copyFiles(r.root, l.database, database))
	}
	l.err = err
	return l
}

func (l leftover) String() string {
	if l.err != nil {
		return l.err.Error()
	}
	said := fmt.Sprintf("Podman: %d made, %d sandboxes and %d containers run", l.made, l.sandboxes, l.containers)
	if l.database == "" {
		return said
	}
	return said + "; database: " + lastRow(filepath.Join(l.database, database[0]))
}

// lastRow describes how far the database had got.
func lastRow(path string) string {
	if _, err := os.Stat(path); err != nil {
		return "none"
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = db.Close() }()
	var rows int
	var pod, container, event string
	err = db.QueryRow(`SELECT (SELECT count(*) FROM transitions), pod, container, event FROM transitions ORDER BY rowid DESC LIMIT 1`).
		Scan(&rows, &pod, &container, &event)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "no transitions"
	case err != nil:
		return "not readable yet"
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", pod, container, event)), " ")
}
