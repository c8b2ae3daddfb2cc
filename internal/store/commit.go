package store

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// Commit records one step of the reconciler, whole or not at all. Class
// NotFound: the pod is not desired any more. Class Conflict: it was edited, or
// its deletion asked for, since the step was planned.
//
// It wakes nobody about the pod itself, since it comes from who is at work on
// it; with Forget it wakes the pod that waited for this one to be gone.
func (s *Store) Commit(ctx context.Context, r pod.Record) error {
	const op = "record step of pod"
	return s.Write(ctx, op, func(t *WriteTx) error {
		var row podRow
		found, err := t.find(&row, selectPods+`WHERE d.uid = ?`, r.UID)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound(op, r.Key)
		case row.Generation != r.Generation:
			return conflict(op, r.Key, "it is at generation %d, not %d", row.Generation, r.Generation)
		case row.deleting() != r.Deleting:
			return conflict(op, r.Key, "its deletion was asked for meanwhile")
		}
		if err := t.commitHistory(row, r); err != nil {
			return err
		}
		if r.Forget {
			return s.forgetPod(t, row)
		}
		if err := t.commitState(row, r); err != nil {
			return err
		}
		for _, b := range r.Backoffs {
			if err := t.putBackoff(row.key(), row.UID, b); err != nil {
				return err
			}
		}
		for name, attempt := range r.Attempts {
			if err := t.raiseAttempt(row.UID, name, attempt); err != nil {
				return err
			}
		}
		return t.commitIntents(row, r.Intents)
	})
}

func (t *WriteTx) commitHistory(row podRow, r pod.Record) error {
	for _, tr := range r.Transitions {
		if tr.Machine == pod.MachineContainer && tr.From == tr.To {
			var is string
			found, err := t.find(&is, `SELECT "to" FROM transitions WHERE pod_uid = ? AND container = ? ORDER BY rowid DESC LIMIT 1`, row.UID, tr.Container)
			if err != nil {
				return err
			}
			if found && is != tr.From {
				continue // the call failed, and did its work all the same
			}
		}
		tr.Key, tr.UID = row.key(), row.UID
		if tr.Generation == 0 {
			tr.Generation = row.Generation
		}
		if err := t.addTransition(tr); err != nil {
			return err
		}
	}
	for _, e := range r.Events {
		if err := t.addEvent(row.key(), row.UID, e); err != nil {
			return err
		}
	}
	return nil
}

func (t *WriteTx) commitState(row podRow, r pod.Record) error {
	status, state, since := row.Status, row.State, row.StateAt
	if r.Status != nil {
		b, err := json.Marshal(r.Status)
		if err != nil {
			return fmt.Errorf("status of pod %s: %w", row.key(), err)
		}
		status = string(b)
	}
	if r.State != "" && r.State != row.State {
		state, since = r.State, t.now()
		t.save(backupPod, string(row.UID))
	}
	if status == row.Status && state == row.State {
		return nil
	}
	version, err := t.nextVersion()
	if err != nil {
		return err
	}
	if status != row.Status && ended(state) {
		t.save(backupPod, string(row.UID))
	}
	_, err = t.Exec(`UPDATE desired_pods SET state = ?, state_at = ?, status = ?, resource_version = ? WHERE uid = ?`, state, since, status, version, row.UID)
	return err
}

// ended reports whether a pod in this state is not run any more.
func ended(s pod.State) bool {
	return s == pod.StateSucceeded || s == pod.StateFailed || s == pod.StateEvicted
}

// raiseAttempt notes the highest attempt ever used.
func (t *WriteTx) raiseAttempt(uid types.UID, container string, attempt int) error {
	n, err := t.Exec(`UPDATE desired_containers SET attempt = ? WHERE pod_uid = ? AND container = ? AND attempt < ?`, attempt, uid, container, attempt)
	if n > 0 {
		t.save(backupPod, string(uid))
	}
	return err
}

func (t *WriteTx) commitIntents(row podRow, intents []pod.Intent) error {
	for _, i := range intents {
		var container string
		if _, err := t.find(&container, `SELECT container FROM observed_containers WHERE id = ?`, i.ContainerID); err != nil {
			return err
		}
		_, err := t.Exec(`INSERT INTO intents (container_id, namespace, pod, container, pod_uid, cause, detail, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (container_id) DO UPDATE SET cause = excluded.cause, detail = excluded.detail, at = excluded.at
			WHERE cause <> excluded.cause OR detail <> excluded.detail`,
			i.ContainerID, row.Namespace, row.Name, container, row.UID, i.Cause, clip(i.Detail), t.now())
		if err != nil {
			return err
		}
	}
	return nil
}
