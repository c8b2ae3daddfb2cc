package store

import (
	"encoding/json"
	"fmt"

	"podstead.io/podstead/internal/pod"
)

// succeed gives a name that became free to the source that has waited for it
// longest. Its pod is inserted at once; while the one before it terminates it
// waits, as its snapshot's Predecessor says.
func (s *Store) succeed(t *WriteTx, key pod.Key) error {
	if _, taken, err := t.wantedPod(key); err != nil || taken {
		return err
	}
	// Refused requests that named the owner say nothing true any more.
	_, err := t.Exec(`DELETE FROM rejections WHERE namespace = ? AND pod = ? AND reason = ? AND manifest = ''`, key.Namespace, key.Name, pod.RejectedConflict)
	if err != nil {
		return err
	}
	var waiting []rejectionRow
	err = t.Select(&waiting, selectRejections+`WHERE namespace = ? AND pod = ? AND manifest <> '' ORDER BY id`, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	owner := ""
	for _, row := range waiting {
		if owner == "" {
			taken, err := s.takeOver(t, row)
			if err != nil {
				return fmt.Errorf("let %s take over %s: %w", row.Source, key, err)
			}
			if taken {
				owner = ownerName(row.Source, row.Place)
				continue
			}
		}
		if err := t.renameOwner(row, owner); err != nil {
			return err
		}
	}
	return nil
}

// takeOver turns a waiting rejection into a pod. One that this binary can't
// read any more stays: its source's next sync says why.
func (s *Store) takeOver(t *WriteTx, row rejectionRow) (bool, error) {
	p, err := s.restore([]byte(row.Manifest))
	if err != nil {
		return false, nil //nolint:nilerr // the manifest is at fault, not the step
	}
	var src sourceRow
	if err := t.Get(&src, selectSources+`WHERE id = ?`, row.Source); err != nil {
		return false, err
	}
	sub := pod.Submission{Pod: p, Manifest: []byte(row.Manifest), Hash: row.Hash, Unit: row.Unit, Place: row.Place}
	if err := json.Unmarshal([]byte(row.Warnings), &sub.Warnings); err != nil {
		return false, fmt.Errorf("rejections.warnings of row %d: %w", row.ID, err)
	}
	if _, err := t.Exec(`DELETE FROM rejections WHERE id = ?`, row.ID); err != nil {
		return false, err
	}
	return true, s.createPod(t, src.source(), sub)
}

// renameOwner makes the rejections that go on waiting name the new owner.
func (t *WriteTx) renameOwner(row rejectionRow, owner string) error {
	if owner == "" {
		return nil
	}
	r, err := row.rejection()
	if err != nil {
		return err
	}
	r.Errors = conflictErrors(r.Key, owner)
	_, err = t.Exec(`UPDATE rejections SET errors = ? WHERE id = ?`, r.row(row.Source).Errors, row.ID)
	return err
}
