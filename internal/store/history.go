package store

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// Limits bound what is kept of the past. A zero field means its default.
type Limits struct {
	Transitions   int           // rows of history; 50,000
	TransitionAge time.Duration // 90 days
	Events        int           // 5,000
	EventAge      time.Duration // 7 days
	// Recent is how many of each are kept whatever their age; 1,000. A clock that
	// jumps ahead must not make everything old.
	Recent       int
	Incarnations int // names that sources once used; 10,000
	Rejections   int // refused submissions over HTTP; 100
}

func (l Limits) withDefaults() Limits {
	const day = 24 * time.Hour
	put := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	put(&l.Transitions, 50_000)
	put(&l.Events, 5_000)
	put(&l.Recent, 1_000)
	put(&l.Incarnations, 10_000)
	put(&l.Rejections, 100)
	if l.TransitionAge == 0 {
		l.TransitionAge = 90 * day
	}
	if l.EventAge == 0 {
		l.EventAge = 7 * day
	}
	return l
}

// History is pruned by a transaction that adds to it, once so many rows were
// added or so much time has passed since the last time: never by a timer.
const (
	pruneRows  = 250
	pruneEvery = time.Hour
	// freePages is how many unused pages are kept for the next rows.
	freePages = 64
)

// maxText is how many bytes are kept of a text that someone else wrote.
const maxText = 2048

// clip makes a text fit for a row: valid UTF-8 and not too long.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func (t *WriteTx) addTransition(tr pod.Transition) error {
	at := t.now()
	if !tr.At.IsZero() {
		at = stampOf(tr.At)
	}
	_, err := t.Exec(`INSERT INTO transitions (at, namespace, pod, container, pod_uid, machine, "from", event, "to", cause, detail, generation, attempt)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		at, tr.Namespace, tr.Name, tr.Container, tr.UID, tr.Machine, tr.From, tr.Event, tr.To, tr.Cause, clip(tr.Detail), tr.Generation, tr.Attempt)
	t.history++
	return err
}

func (t *WriteTx) addEvent(key pod.Key, uid types.UID, e pod.Event) error {
	_, err := t.Exec(`INSERT INTO events (namespace, pod, container, pod_uid, type, reason, message, count, first_seen_at, last_seen_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
		ON CONFLICT (pod_uid, container, type, reason, message) DO UPDATE SET count = count + 1, last_seen_at = excluded.last_seen_at`,
		key.Namespace, key.Name, e.Container, uid, e.Type, e.Reason, clip(e.Message), t.now(), t.now())
	t.history++
	return err
}

// pruner says when history was last pruned. The writer's turn guards it.
type pruner struct {
	at    time.Time // by the monotonic clock
	added int
}

// prune drops history beyond its limits if this transaction added to it and
// enough has come together.
func (s *Store) prune(t *WriteTx) error {
	if t.history == 0 {
		return nil
	}
	added := s.pruned.added + t.history
	if added < pruneRows && s.order.now().Sub(s.pruned.at) < pruneEvery {
		t.onCommit(func() { s.pruned.added = added })
		return nil
	}
	t.onCommit(func() { s.pruned = pruner{at: s.order.now()} })
	removed, err := t.pruneHistory(s.limits)
	if err != nil || removed == 0 {
		return err
	}
	return t.shrink()
}

// pruneHistory counts what it removed. Events and incarnations of the future, from
// before the clock was set back, count as the oldest; transitions go in the order
// in which they were written. That a pod is gone stays known while anything of it
// is observed: what is left of it is not to be taken for a pod that was submitted.
func (t *WriteTx) pruneHistory(l Limits) (int64, error) {
	transitions, err := t.Exec(`DELETE FROM transitions WHERE rowid IN (
			SELECT rowid FROM (SELECT rowid, at, row_number() OVER (ORDER BY rowid DESC) AS place FROM transitions)
			WHERE place > ? OR at < ? AND place > ?)
		AND (EXISTS (SELECT 1 FROM transitions l WHERE l.pod_uid = transitions.pod_uid AND l.container = transitions.container AND l.rowid > transitions.rowid)
			OR NOT EXISTS (SELECT 1 FROM desired_pods d WHERE d.uid = transitions.pod_uid))
		AND NOT ("to" = 'Gone' AND (EXISTS (SELECT 1 FROM observed_sandboxes o WHERE o.pod_uid = transitions.pod_uid)
			OR EXISTS (SELECT 1 FROM observed_containers o WHERE o.pod_uid = transitions.pod_uid)))`,
		l.Transitions, stampOf(t.Now.Add(-l.TransitionAge)), l.Recent)
	if err != nil {
		return 0, err
	}
	events, err := t.Exec(`DELETE FROM events WHERE id IN (
			SELECT id FROM (SELECT id, last_seen_at, row_number() OVER (ORDER BY last_seen_at > ?, last_seen_at DESC) AS place FROM events)
			WHERE place > ? OR last_seen_at < ? AND place > ?)`,
		t.now(), l.Events, stampOf(t.Now.Add(-l.EventAge)), l.Recent)
	if err != nil {
		return 0, err
	}
	incarnations, err := t.pruneIncarnations(l.Incarnations)
	return transitions + events + incarnations, err
}

func (t *WriteTx) pruneIncarnations(kept int) (int64, error) {
	var names []incarnationObject
	err := t.Select(&names, `SELECT source, namespace, pod FROM (
			SELECT *, row_number() OVER (ORDER BY used_at > ?, used_at DESC) AS place FROM incarnations) i
		WHERE place > ? AND NOT EXISTS (SELECT 1 FROM desired_pods d WHERE d.source = i.source AND d.namespace = i.namespace AND d.name = i.pod)`,
		t.now(), kept)
	if err != nil {
		return 0, err
	}
	for _, n := range names {
		if _, err := t.Exec(`DELETE FROM incarnations WHERE source = ? AND namespace = ? AND pod = ?`, n.Source, n.Namespace, n.Pod); err != nil {
			return 0, err
		}
		t.save(backupIncarnation, incarnationKey(n.Source, pod.Key{Namespace: n.Namespace, Name: n.Pod}))
	}
	return int64(len(names)), nil
}

// shrink gives unused pages back to the file system, all but a few.
func (t *WriteTx) shrink() error {
	var free int
	if err := t.Get(&free, `PRAGMA freelist_count`); err != nil || free <= freePages {
		return err
	}
	_, err := t.conn.raw.ExecContext(t.ctx, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, free-freePages))
	return err
}
