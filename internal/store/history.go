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
	Incarnations  int           // names that sources once used; 10,000
	Rejections    int           // refused submissions over HTTP; 100
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
	at    time.Time
	added int
}

// prune drops history beyond its limits if this transaction added to it and
// enough has come together.
func (s *Store) prune(t *WriteTx) error {
	if t.history == 0 {
		return nil
	}
	added := s.pruned.added + t.history
	if added < pruneRows && t.Now.Sub(s.pruned.at) < pruneEvery {
		t.onCommit(func() { s.pruned.added = added })
		return nil
	}
	t.onCommit(func() { s.pruned = pruner{at: t.Now} })
	l := s.limits
	removed := int64(0)
	for _, q := range []struct {
		text string
		args []any
	}{
		{`DELETE FROM transitions WHERE (at < ? OR rowid <= (SELECT rowid FROM transitions ORDER BY rowid DESC LIMIT 1 OFFSET ?))
			AND (EXISTS (SELECT 1 FROM transitions l WHERE l.pod_uid = transitions.pod_uid AND l.container = transitions.container AND l.rowid > transitions.rowid)
				OR NOT EXISTS (SELECT 1 FROM desired_pods d WHERE d.uid = transitions.pod_uid))`,
			[]any{stampOf(t.Now.Add(-l.TransitionAge)), l.Transitions}},
		{`DELETE FROM events WHERE last_seen_at < ? OR last_seen_at < (SELECT last_seen_at FROM events ORDER BY last_seen_at DESC LIMIT 1 OFFSET ?)`,
			[]any{stampOf(t.Now.Add(-l.EventAge)), l.Events - 1}},
		{`DELETE FROM incarnations WHERE used_at < (SELECT used_at FROM incarnations ORDER BY used_at DESC LIMIT 1 OFFSET ?)
			AND NOT EXISTS (SELECT 1 FROM desired_pods d WHERE d.source = incarnations.source AND d.namespace = incarnations.namespace AND d.name = incarnations.pod)`,
			[]any{l.Incarnations - 1}},
	} {
		n, err := t.Exec(q.text, q.args...)
		if err != nil {
			return err
		}
		removed += n
	}
	if removed == 0 {
		return nil
	}
	return t.shrink()
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
