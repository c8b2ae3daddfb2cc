package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"podstead.io/podstead/internal/pod"
)

// wantedPod is what planning needs of a row that is not being deleted.
type wantedPod struct {
	Namespace string `db:"namespace"`
	Name      string `db:"name"`
	Source    string `db:"source"`
	Unit      string `db:"unit"`
	Place     string `db:"place"`
	Hash      string `db:"manifest_hash"`
}

func (w wantedPod) key() pod.Key { return pod.Key{Namespace: w.Namespace, Name: w.Name} }

const selectWanted = `SELECT namespace, name, source, unit, place, manifest_hash FROM desired_pods WHERE deletion_requested_at IS NULL`

// wantedPods are the wanted rows that a sync may touch: all of them, or, when it
// speaks of some units only, those of the units and those with the names that
// are wanted or waited for there.
func (t *ReadTx) wantedPods(src pod.Source, set pod.SourceSet, refused []rejection) (map[pod.Key]wantedPod, error) {
	var rows []wantedPod
	if set.Units == nil {
		if err := t.Select(&rows, selectWanted); err != nil {
			return nil, err
		}
	} else {
		if err := t.Select(&rows, selectWanted+` AND source = ? AND unit IN (SELECT value FROM json_each(?))`, src.ID, marshal(set.Units)); err != nil {
			return nil, err
		}
		for key := range keysOf(set, refused) {
			var named []wantedPod
			if err := t.Select(&named, selectWanted+` AND namespace = ? AND name = ?`, key.Namespace, key.Name); err != nil {
				return nil, err
			}
			rows = append(rows, named...)
		}
	}
	wanted := make(map[pod.Key]wantedPod, len(rows))
	for _, r := range rows {
		wanted[r.key()] = r
	}
	return wanted, nil
}

func keysOf(set pod.SourceSet, refused []rejection) map[pod.Key]struct{} {
	keys := make(map[pod.Key]struct{}, len(set.Pods)+len(refused))
	for _, sub := range set.Pods {
		keys[sub.Key()] = struct{}{}
	}
	for _, r := range refused {
		keys[r.Key] = struct{}{}
	}
	return keys
}

func (t *ReadTx) wantedPod(key pod.Key) (row podRow, found bool, err error) {
	found, err = t.find(&row, selectPods+`WHERE d.namespace = ? AND d.name = ? AND d.deletion_requested_at IS NULL`, key.Namespace, key.Name)
	return row, found, err
}

// mustWant is wantedPod for a pod that this transaction has seen already.
func (t *ReadTx) mustWant(key pod.Key) (podRow, error) {
	row, found, err := t.wantedPod(key)
	if err == nil && !found {
		err = fmt.Errorf("pod %s is not wanted any more", key)
	}
	return row, err
}

// syncPlan is what a sync does to the pods and rejections of its source.
type syncPlan struct {
	set                pod.SourceSet
	create, edit, move []pod.Submission
	remove             []wantedPod
	rejections         []rejection
	result             pod.SyncResult
}

// planSync compares what a source wants with the wanted rows of all sources.
// refused are the source's rejections so far.
func planSync(src pod.Source, set pod.SourceSet, wanted map[pod.Key]wantedPod, refused []rejection) syncPlan {
	p := syncPlan{set: set}
	for _, r := range set.Rejections {
		p.rejections = append(p.rejections, rejection{Rejection: r})
	}
	chosen := chooseUnits(src, set, wanted)
	taken := map[pod.Key]bool{}
	for i, sub := range set.Pods {
		key := sub.Key()
		row, exists := wanted[key]
		switch {
		case exists && row.Source != src.ID:
			p.conflict(sub, ownerName(row.Source, row.Place))
		case chosen[key] != i:
			p.conflict(sub, ownerName(src.ID, chosenPlace(set, chosen[key], row)))
		case !exists:
			p.create = append(p.create, sub)
			p.result.Created = append(p.result.Created, key)
		case row.Hash != sub.Hash:
			p.edit = append(p.edit, sub)
			p.result.Updated = append(p.result.Updated, key)
		default:
			if row.Unit != sub.Unit || row.Place != sub.Place {
				p.move = append(p.move, sub)
			}
			p.result.Unchanged = append(p.result.Unchanged, key)
		}
		taken[key] = true
	}
	for key, row := range wanted {
		if row.Source == src.ID && !taken[key] && !set.Keeps(row.Unit) {
			p.remove = append(p.remove, row)
		}
	}
	slices.SortFunc(p.remove, func(a, b wantedPod) int { return cmp.Compare(a.key().String(), b.key().String()) })
	for _, row := range p.remove {
		p.result.Removed = append(p.result.Removed, row.key())
	}
	p.keepWaiting(set, taken, wanted, refused)
	return p
}

// kept stands in chooseUnits for the stored row of a unit that can't be read or
// is not spoken of.
const kept = -1

// chooseUnits says which of several submissions of one name a source means: the
// one from the unit that has the name already, else the first.
func chooseUnits(src pod.Source, set pod.SourceSet, wanted map[pod.Key]wantedPod) map[pod.Key]int {
	chosen := map[pod.Key]int{}
	for i, sub := range set.Pods {
		key := sub.Key()
		row := wanted[key]
		before, seen := chosen[key]
		switch {
		case row.Source != src.ID:
			if !seen {
				chosen[key] = i
			}
		case sub.Unit == row.Unit:
			if !seen || before == kept || set.Pods[before].Unit != row.Unit {
				chosen[key] = i
			}
		case !seen && set.Keeps(row.Unit):
			chosen[key] = kept
		case !seen:
			chosen[key] = i
		}
	}
	return chosen
}

func chosenPlace(set pod.SourceSet, i int, row wantedPod) string {
	if i == kept {
		return row.Place
	}
	return set.Pods[i].Place
}

func (p *syncPlan) conflict(sub pod.Submission, owner string) {
	r := conflictRejection(sub, owner)
	p.rejections = append(p.rejections, r)
	p.result.Conflicts = append(p.result.Conflicts, r.Rejection)
}

// keepWaiting keeps the pods of unreadable units that wait for a name: like
// those that have one, they stay as they were last read.
func (p *syncPlan) keepWaiting(set pod.SourceSet, taken map[pod.Key]bool, wanted map[pod.Key]wantedPod, refused []rejection) {
	for _, r := range refused {
		_, owned := wanted[r.Key]
		if r.manifest != "" && owned && !taken[r.Key] && set.Keeps(r.Unit) {
			p.rejections = append(p.rejections, r)
		}
	}
}

// SyncSource replaces everything that the source wants, or that the units do of
// which the set speaks. Pods that are missing from the set are deleted, those of
// incomplete units aside; names that another source owns become rejections and
// take over when the owner goes. Finding all as before writes nothing. A set of
// some units costs what they hold, however much else is wanted, and only a whole
// one makes the source a synced one.
func (s *Store) SyncSource(ctx context.Context, src pod.Source, set pod.SourceSet) (pod.SyncResult, error) {
	var result pod.SyncResult
	err := s.Write(ctx, "sync source "+src.ID, func(t *WriteTx) error {
		refused, err := t.rejectionsOf(src.ID, set.Units)
		if err != nil {
			return err
		}
		wanted, err := t.wantedPods(src, set, refused)
		if err != nil {
			return err
		}
		plan := planSync(src, set, wanted, refused)
		result = plan.result
		return s.applySync(t, src, plan, refused)
	})
	if err != nil {
		return pod.SyncResult{}, err
	}
	if set.Units == nil {
		s.synced(src.ID)
	}
	return result, nil
}

// removal says how a source came to want a pod no more.
func (p syncPlan) removal(w wantedPod) string {
	if slices.Contains(p.set.Gone, w.Unit) {
		return w.Unit + " was removed"
	}
	return "it was removed from " + w.Place
}

func (s *Store) applySync(t *WriteTx, src pod.Source, p syncPlan, refused []rejection) error {
	changed := len(p.create)+len(p.edit)+len(p.move)+len(p.remove) > 0
	known, err := t.ensureSource(src, p.set.Units == nil)
	if err != nil {
		return err
	}
	if !known { // it may have been the last to be waited for
		if err := t.touchAll(`SELECT DISTINCT pod_uid FROM observed_sandboxes WHERE pod_uid NOT IN (SELECT uid FROM desired_pods)`); err != nil {
			return err
		}
	}
	replaced, err := t.replaceRejections(src.ID, refused, p.rejections)
	if err != nil {
		return err
	}
	if changed || replaced || !known {
		if _, err := t.Exec(`UPDATE sources SET last_sync_at = ? WHERE id = ?`, t.now(), src.ID); err != nil {
			return err
		}
	}
	for _, w := range p.remove {
		row, err := t.mustWant(w.key())
		if err != nil {
			return err
		}
		if err := s.deletePod(t, row, nil, pod.CauseSource, p.removal(w)); err != nil {
			return err
		}
	}
	for _, sub := range p.create {
		if err := s.createPod(t, src, sub); err != nil {
			return err
		}
	}
	for _, sub := range append(slices.Clone(p.edit), p.move...) {
		row, err := t.mustWant(sub.Key())
		if err != nil {
			return err
		}
		if row.Hash == sub.Hash {
			err = t.movePod(row, sub)
		} else {
			err = s.editPod(t, row, sub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
