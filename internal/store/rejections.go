package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// rejection is a row of rejections. One with a manifest waits for its name.
type rejection struct {
	pod.Rejection
	id       int64
	manifest string
	hash     string
	warnings string // JSON
}

type rejectionRow struct {
	ID        int64               `db:"id"`
	Source    string              `db:"source"`
	Unit      string              `db:"unit"`
	Place     string              `db:"place"`
	Namespace string              `db:"namespace"`
	Pod       string              `db:"pod"`
	Reason    pod.RejectionReason `db:"reason"`
	Errors    string              `db:"errors"`
	Manifest  string              `db:"manifest"`
	Hash      string              `db:"manifest_hash"`
	Warnings  string              `db:"warnings"`
	FirstSeen stamp               `db:"first_seen_at"`
}

const selectRejections = `SELECT id, source, unit, place, namespace, pod, reason, errors, manifest, manifest_hash, warnings, first_seen_at FROM rejections `

// fieldError is a pod.FieldError as it is stored.
type fieldError struct {
	Field   string `json:"field"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Line    int    `json:"line"`
}

func ownerName(source, place string) string {
	if place == "" {
		return source
	}
	return source + " (" + place + ")"
}

func conflictErrors(key pod.Key, owner string) []pod.FieldError {
	return []pod.FieldError{{
		Field: "metadata.name", Reason: "FieldValueDuplicate",
		Message: fmt.Sprintf("pod %s belongs to %s; this one takes over when that one is removed", key, owner),
	}}
}

func conflictRejection(sub pod.Submission, owner string) rejection {
	return rejection{
		Rejection: pod.Rejection{
			Unit: sub.Unit, Place: sub.Place, Key: sub.Key(), Reason: pod.RejectedConflict,
			Errors: conflictErrors(sub.Key(), owner),
		},
		manifest: string(sub.Manifest), hash: sub.Hash, warnings: marshal(append([]string{}, sub.Warnings...)),
	}
}

func (r rejection) row(source string) rejectionRow {
	list := make([]fieldError, 0, len(r.Errors))
	for _, e := range r.Errors {
		list = append(list, fieldError{Field: e.Field, Reason: e.Reason, Message: clip(e.Message), Line: e.Line})
	}
	return rejectionRow{
		Source: source, Unit: r.Unit, Place: r.Place, Namespace: r.Key.Namespace, Pod: r.Key.Name, Reason: r.Reason,
		Errors: marshal(list), Manifest: r.manifest, Hash: r.hash, Warnings: r.warnings,
	}
}

func (r rejectionRow) rejection() (rejection, error) {
	var list []fieldError
	if err := json.Unmarshal([]byte(r.Errors), &list); err != nil {
		return rejection{}, fmt.Errorf("rejections.errors of row %d: %w", r.ID, err)
	}
	out := rejection{
		Rejection: pod.Rejection{Unit: r.Unit, Place: r.Place, Key: pod.Key{Namespace: r.Namespace, Name: r.Pod}, Reason: r.Reason},
		id:        r.ID, manifest: r.Manifest, hash: r.Hash, warnings: r.Warnings,
	}
	for _, e := range list {
		out.Errors = append(out.Errors, pod.FieldError{Field: e.Field, Reason: e.Reason, Message: e.Message, Line: e.Line})
	}
	return out, nil
}

// rejectionsOf are those of a source, or of some of its units.
func (t *ReadTx) rejectionsOf(source string, units []string) ([]rejection, error) {
	query, args := selectRejections+`WHERE source = ?`, []any{source}
	if units != nil {
		query, args = query+` AND unit IN (SELECT value FROM json_each(?))`, append(args, marshal(units))
	}
	var rows []rejectionRow
	if err := t.Select(&rows, query+` ORDER BY id`, args...); err != nil {
		return nil, err
	}
	list := make([]rejection, 0, len(rows))
	for _, row := range rows {
		r, err := row.rejection()
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

const insertRejection = `INSERT INTO rejections (source, unit, place, namespace, pod, reason, errors, manifest, manifest_hash, warnings, first_seen_at)
	VALUES (:source, :unit, :place, :namespace, :pod, :reason, :errors, :manifest, :manifest_hash, :warnings, :first_seen_at)`

// putRejection inserts a new rejection, and an event that tells of it.
func (t *WriteTx) putRejection(row rejectionRow, r pod.Rejection) error {
	row.FirstSeen = t.now()
	if err := t.named(insertRejection, row); err != nil {
		return err
	}
	message := ownerName(row.Source, r.Place)
	if len(r.Errors) > 0 {
		e := r.Errors[0]
		if e.Field != "" {
			message += ": " + e.Field
		}
		message += ": " + e.Message
	}
	if more := len(r.Errors) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return t.addEvent(r.Key, "", pod.Event{Type: corev1.EventTypeWarning, Reason: "ManifestRejected", Message: message})
}

// replaceRejections makes the source's rejections those given, writing only
// differences, so that a row says since when. It reports whether there were any.
func (t *WriteTx) replaceRejections(source string, before, after []rejection) (bool, error) {
	left := make(map[rejectionRow][]int64, len(before))
	for _, r := range before {
		row := r.row(source)
		left[row] = append(left[row], r.id)
	}
	changed := false
	for _, r := range after {
		row := r.row(source)
		if ids := left[row]; len(ids) > 0 {
			left[row] = ids[1:]
			continue
		}
		if err := t.putRejection(row, r.Rejection); err != nil {
			return false, err
		}
		changed = true
	}
	for _, ids := range left {
		for _, id := range ids {
			if _, err := t.Exec(`DELETE FROM rejections WHERE id = ?`, id); err != nil {
				return false, err
			}
			changed = true
		}
	}
	return changed, nil
}

// Reject records submissions over HTTP that were refused, so that they are seen
// by others than who sent them. An earlier rejection of the same pod is
// replaced; a later submission of it that is taken clears it.
func (s *Store) Reject(ctx context.Context, src pod.Source, list []pod.Rejection) error {
	return s.Write(ctx, "record rejections", func(t *WriteTx) error {
		if _, err := t.ensureSource(src, true); err != nil {
			return err
		}
		for _, r := range list {
			if err := t.clearRejections(src.ID, r.Key); err != nil {
				return err
			}
			if err := t.putRejection(rejection{Rejection: r}.row(src.ID), r); err != nil {
				return err
			}
		}
		_, err := t.Exec(`DELETE FROM rejections WHERE source = ? AND id <= (SELECT id FROM rejections WHERE source = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
			src.ID, src.ID, s.limits.Rejections)
		return err
	})
}

func (t *WriteTx) clearRejections(source string, key pod.Key) error {
	if key.Name == "" {
		return nil
	}
	_, err := t.Exec(`DELETE FROM rejections WHERE source = ? AND namespace = ? AND pod = ?`, source, key.Namespace, key.Name)
	return err
}

// RejectionStatus is a rejection with its source and since when it stands.
type RejectionStatus struct {
	pod.Rejection
	Source string
	// Waits says that it takes over when the owner of its name goes.
	Waits     bool
	FirstSeen time.Time
}

// Rejections lists what was refused, by source and in order.
func (s *Store) Rejections(ctx context.Context) ([]RejectionStatus, error) {
	var rows []rejectionRow
	err := s.Read(ctx, func(t *ReadTx) error { return t.Select(&rows, selectRejections+`ORDER BY source, id`) })
	if err != nil {
		return nil, err
	}
	list := make([]RejectionStatus, 0, len(rows))
	for _, row := range rows {
		r, err := row.rejection()
		if err != nil {
			return nil, explain("list rejections", s.path, err)
		}
		list = append(list, RejectionStatus{Rejection: r.Rejection, Source: row.Source, Waits: r.manifest != "", FirstSeen: row.FirstSeen.Time()})
	}
	return list, nil
}
