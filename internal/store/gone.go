package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

func (o *observer) goneSandbox(g pod.Gone) error {
	o.bury(g.ID)
	old, found, err := o.storedSandbox(g.ID)
	if err != nil || !found {
		return err
	}
	if err := o.dropSandbox(old); err != nil {
		return err
	}
	var inside []observedRow
	if err := o.t.Select(&inside, selectObserved+`WHERE sandbox_id = ?`, g.ID); err != nil {
		return err
	}
	for _, c := range inside {
		if err := o.vanish(c, g); err != nil {
			return err
		}
	}
	return nil
}

func (o *observer) dropSandbox(row sandboxRow) error {
	o.t.touch(row.PodUID)
	_, err := o.t.Exec(`DELETE FROM observed_sandboxes WHERE id = ?`, row.ID)
	return err
}

func (o *observer) goneContainer(g pod.Gone) error {
	o.bury(g.ID)
	var old observedRow
	found, err := o.t.find(&old, selectObserved+`WHERE id = ?`, g.ID)
	if err != nil || !found {
		return err
	}
	return o.vanish(old, g)
}

// vanish takes away a container that the runtime no longer has. The latest
// attempt of a wanted one stays as gone, so that its restart policy can still
// be judged. One that never ran has nothing to be judged by, and its number may
// be used again.
func (o *observer) vanish(old observedRow, g pod.Gone) error {
	if old.State == pod.RunGone {
		return nil
	}
	row := old
	row.State, row.PID, row.ChangedAt = pod.RunGone, 0, o.t.now()
	switch {
	case o.killedToBeRemoved(old, g):
		row.EndCause, row.EndDetail = pod.CauseUser, removedByHand
		if err := o.amend(row); err != nil {
			return err
		}
	case !old.ended():
		if err := o.explainVanishing(&row, old, g); err != nil {
			return err
		}
	}
	if err := o.dropIntent(old.ID); err != nil {
		return err
	}
	o.t.touch(old.PodUID)
	keep, err := o.isLatestWanted(old)
	switch {
	case err != nil:
		return err
	case keep && old.ran():
		if err := o.t.named(putObserved, row); err != nil {
			return err
		}
		return o.edge(&old, &row)
	}
	if _, err := o.t.Exec(`DELETE FROM observed_containers WHERE id = ?`, old.ID); err != nil {
		return err
	}
	if old.ended() {
		return o.edge(&old, nil)
	}
	return o.edge(&old, &row)
}

const removedByHand = "it was removed from Podman"

// killed is the exit code of a process that SIGKILL ended.
const killed = 128 + 9

// removalFollows is how long after its end the removal of a container that was
// killed for it may be heard of.
const removalFollows = time.Second

// killedToBeRemoved reports whether someone else removed a container by force:
// the kernel tells that it was killed before Podman tells that it is gone.
func (o *observer) killedToBeRemoved(old observedRow, g pod.Gone) bool {
	return g.Cause == "" && old.EndCause == pod.CauseExit && old.ExitCode == killed &&
		o.t.Now.Sub(old.ChangedAt.Time()) < removalFollows
}

// explainVanishing says why a container that had not ended is not there. Its
// FinishedAt stays unset: nobody saw its end.
func (o *observer) explainVanishing(row *observedRow, old observedRow, g pod.Gone) error {
	intent, found, err := o.intent(old.ID)
	switch {
	case err != nil:
		return err
	case g.Cause != "":
		row.EndCause, row.EndDetail = g.Cause, clip(g.Detail)
	case found:
		row.EndCause, row.EndDetail = intent.Cause, intent.Detail
	case o.facts.Rebooted && old.State.Live():
		row.EndCause, row.EndDetail = pod.CauseReboot, "the machine was restarted"
	default:
		row.EndCause, row.EndDetail = pod.CauseUser, removedByHand
	}
	return nil
}

func (o *observer) isLatestWanted(c observedRow) (bool, error) {
	var latest bool
	err := o.t.Get(&latest, `SELECT EXISTS (SELECT 1 FROM desired_containers w JOIN desired_pods d ON d.uid = w.pod_uid
			WHERE w.pod_uid = ? AND w.container = ? AND w.wanted AND d.deletion_requested_at IS NULL)
		AND NOT EXISTS (SELECT 1 FROM observed_containers l WHERE l.pod_uid = ? AND l.container = ? AND l.attempt > ?)`,
		c.PodUID, c.Container, c.PodUID, c.Container, c.Attempt)
	return latest, err
}

// missing finds what a complete listing does not name any more. What changed
// after the runtime was asked is not judged by it.
func (o *observer) missing() error {
	listed := make(map[string]bool, len(o.facts.Sandboxes)+len(o.facts.Containers))
	for _, b := range o.facts.Sandboxes {
		listed[b.ID] = true
	}
	for _, c := range o.facts.Containers {
		listed[c.ID] = true
	}
	judged := func(id string) bool { return o.store.order.rows[id].changed.Before(o.asked) }
	for id, c := range o.containers {
		if !listed[id] && c.State != pod.RunGone && judged(id) {
			if err := o.goneContainer(pod.Gone{ID: id}); err != nil {
				return err
			}
		}
	}
	for id, b := range o.sandboxes {
		if !listed[id] && judged(id) {
			o.bury(id)
			if err := o.dropSandbox(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// bury remembers what is gone, once that is committed.
func (o *observer) bury(id string) {
	now := o.store.order.now()
	o.t.onCommit(func() { o.store.order.bury(id, now) })
}

// buryPod remembers everything observed of a pod as gone.
func (s *Store) buryPod(t *WriteTx, uid types.UID) error {
	var ids []string
	err := t.Select(&ids, `SELECT id FROM observed_sandboxes WHERE pod_uid = ? UNION ALL SELECT id FROM observed_containers WHERE pod_uid = ?`, uid, uid)
	now := s.order.now()
	t.onCommit(func() {
		for _, id := range ids {
			s.order.bury(id, now)
		}
	})
	return err
}
