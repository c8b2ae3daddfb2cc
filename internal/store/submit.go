package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
)

// Submit creates or edits the pods given, all of them or none, and returns once
// the disk has them. Class Conflict: another source owns one of the names; the
// error names it, and the result lists every conflict, which is recorded as a
// rejection but does not wait for the name. Class Invalid: a name is given twice.
func (s *Store) Submit(ctx context.Context, src pod.Source, subs []pod.Submission) (pod.SyncResult, error) {
	var result pod.SyncResult
	err := s.WriteDurably(ctx, "submit", func(t *WriteTx) error {
		result = pod.SyncResult{}
		if _, err := t.ensureSource(src, true); err != nil {
			return err
		}
		if err := t.checkNames(src, subs, &result); err != nil {
			return err
		}
		for _, sub := range subs {
			if err := s.submitOne(t, src, sub, &result); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.synced(src.ID)
		return result, nil
	}
	refused := pod.SyncResult{Conflicts: result.Conflicts}
	if len(refused.Conflicts) > 0 {
		if err := s.Reject(ctx, src, refused.Conflicts); err != nil {
			return refused, err
		}
	}
	return refused, err
}

// checkNames refuses names that are given twice or that another source owns.
func (t *WriteTx) checkNames(src pod.Source, subs []pod.Submission, result *pod.SyncResult) error {
	seen := map[pod.Key]string{}
	var owner string
	for _, sub := range subs {
		key := sub.Key()
		if place, twice := seen[key]; twice {
			return &pod.Error{Class: pod.Invalid, Op: "submit pod", Object: key.String(), Err: fmt.Errorf("it is given twice, at %q and %q", place, sub.Place)}
		}
		seen[key] = sub.Place
		row, found, err := t.wantedPod(key)
		if err != nil {
			return err
		}
		if !found || row.Source == src.ID {
			continue
		}
		owner = row.owner()
		r := pod.Rejection{Unit: sub.Unit, Place: sub.Place, Key: key, Reason: pod.RejectedConflict, Errors: []pod.FieldError{{
			Field: "metadata.name", Reason: "FieldValueDuplicate", Message: fmt.Sprintf("pod %s belongs to %s", key, owner),
		}}}
		result.Conflicts = append(result.Conflicts, r)
	}
	if len(result.Conflicts) > 0 {
		c := result.Conflicts[0]
		return &pod.Error{Class: pod.Conflict, Op: "submit pod", Object: c.Key.String(), Err: errors.New(c.Errors[0].Message)}
	}
	return nil
}

func (s *Store) submitOne(t *WriteTx, src pod.Source, sub pod.Submission, result *pod.SyncResult) error {
	key := sub.Key()
	if err := t.clearRejections(src.ID, key); err != nil {
		return err
	}
	row, found, err := t.wantedPod(key)
	switch {
	case err != nil:
		return err
	case !found:
		result.Created = append(result.Created, key)
		return s.createPod(t, src, sub)
	case row.Hash == sub.Hash:
		result.Unchanged = append(result.Unchanged, key)
		return nil
	default:
		result.Updated = append(result.Updated, key)
		return s.editPod(t, row, sub)
	}
}

// Withdraw deletes a pod that the source submitted, and returns once the disk
// has that. grace nil: the pod's own. Withdrawing a pod that is being deleted
// already succeeds, and shortens its grace if it is asked for less. Class
// NotFound: there is no such pod. Class Conflict: another source owns it; the
// error names it.
func (s *Store) Withdraw(ctx context.Context, src pod.Source, key pod.Key, grace *time.Duration) error {
	const op = "delete pod"
	return s.WriteDurably(ctx, op, func(t *WriteTx) error {
		var row podRow
		found, err := t.find(&row, selectPods+`WHERE d.namespace = ? AND d.name = ?
			ORDER BY d.deletion_requested_at IS NULL DESC, d.rowid DESC LIMIT 1`, key.Namespace, key.Name)
		switch {
		case err != nil:
			return err
		case !found:
			return s.withdrawUnclaimed(t, src, key, grace)
		case row.Source != src.ID:
			return conflict(op, key, "it belongs to %s: remove it there", row.owner())
		case row.deleting():
			return t.hasten(row, grace)
		}
		if err := t.clearRejections(src.ID, key); err != nil {
			return err
		}
		return s.deletePod(t, row, grace, pod.CauseUser, "its deletion was asked for over HTTP")
	})
}

// withdrawUnclaimed deletes a pod that was submitted to a database which is lost.
// It gets a row for as long as that takes.
func (s *Store) withdrawUnclaimed(t *WriteTx, src pod.Source, key pod.Key, grace *time.Duration) error {
	row := podRow{
		Namespace: key.Namespace, Name: key.Name, Source: src.ID, Generation: 1, CreatedAt: t.now(), StateAt: t.now(), Status: "{}",
		Manifest: marshal(corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}),
	}
	if err := t.adopt(&row, false, nil); err != nil {
		return err
	}
	if row.UID == "" {
		return notFound("delete pod", key)
	}
	if _, err := t.ensureSource(src, true); err != nil {
		return err
	}
	if err := t.named(insertPod, row); err != nil {
		return err
	}
	return s.deletePod(t, row, grace, pod.CauseUser, "its deletion was asked for over HTTP")
}

// hasten shortens the grace of a pod that is being deleted to end the given
// time from now, never lengthens it. Of a deadline that is past, or farther off
// than the grace, the clock has been put forward or back since: what is left is
// not known, and the grace itself is what is compared.
func (t *WriteTx) hasten(row podRow, grace *time.Duration) error {
	was := time.Duration(row.DeletionGraceNS)
	left := row.DeletionDeadlineAt.Time().Sub(t.Now)
	if left <= 0 || left > was {
		left = was
	}
	if grace == nil || *grace >= left {
		return nil
	}
	return t.setDeletion(row.UID, t.Now, *grace, row.DeletionCause, row.DeletionDetail)
}
