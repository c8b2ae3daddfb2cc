package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
)

// observer writes one set of facts.
type observer struct {
	t     *WriteTx
	store *Store
	facts pod.Facts
	asked time.Time
	// Filled when the facts are a complete listing, to save a query a row.
	sandboxes  map[string]sandboxRow
	containers map[string]observedRow
}

// Observe records what the runtime has. Facts equal to what is stored write
// nothing and wake nobody, and a late fact about an earlier state of something
// does not overwrite a later one. What is early and late is told by when the
// runtime was asked, never by the time of day.
func (s *Store) Observe(ctx context.Context, f pod.Facts) error {
	return s.Write(ctx, "record observations", func(t *WriteTx) error {
		o := &observer{t: t, store: s, facts: f, asked: f.AsOf}
		if o.asked.IsZero() {
			o.asked = s.order.now()
		}
		return o.run()
	})
}

func (o *observer) run() error {
	if o.facts.Complete {
		if err := o.prefetch(); err != nil {
			return err
		}
	}
	// History is in the order of attempts, and what is gone made way for what is
	// there.
	if o.facts.Complete {
		if err := o.missing(); err != nil {
			return err
		}
	}
	containers := slices.Clone(o.facts.Containers)
	slices.SortStableFunc(containers, func(a, b pod.Container) int { return cmp.Compare(a.Attempt, b.Attempt) })
	for _, b := range o.facts.Sandboxes {
		if err := o.sandbox(sandboxRowOf(b)); err != nil {
			return fmt.Errorf("sandbox %s: %w", b.ID, err)
		}
	}
	for _, c := range containers {
		if err := o.container(observedRowOf(c)); err != nil {
			return fmt.Errorf("container %s: %w", c.ID, err)
		}
	}
	for _, g := range o.facts.GoneContainers {
		if err := o.goneContainer(g); err != nil {
			return fmt.Errorf("container %s: %w", g.ID, err)
		}
	}
	for _, g := range o.facts.GoneSandboxes {
		if err := o.goneSandbox(g); err != nil {
			return fmt.Errorf("sandbox %s: %w", g.ID, err)
		}
	}
	if o.facts.Returned {
		if err := o.t.endOutage(); err != nil {
			return err
		}
	}
	if o.facts.Complete && o.facts.Rebooted {
		return o.store.noteBoot(o.t)
	}
	return nil
}

func (o *observer) prefetch() error {
	var boxes []sandboxRow
	if err := o.t.Select(&boxes, selectSandboxes); err != nil {
		return err
	}
	o.sandboxes = make(map[string]sandboxRow, len(boxes))
	for _, b := range boxes {
		o.sandboxes[b.ID] = b
	}
	var containers []observedRow
	if err := o.t.Select(&containers, selectObserved); err != nil {
		return err
	}
	o.containers = make(map[string]observedRow, len(containers))
	for _, c := range containers {
		o.containers[c.ID] = c
	}
	return nil
}

func (o *observer) storedSandbox(id string) (row sandboxRow, found bool, err error) {
	if o.sandboxes != nil {
		row, found = o.sandboxes[id]
		return row, found, nil
	}
	found, err = o.t.find(&row, selectSandboxes+`WHERE id = ?`, id)
	return row, found, err
}

func (o *observer) storedContainer(id string) (row observedRow, found bool, err error) {
	if o.containers != nil {
		row, found = o.containers[id]
		return row, found, nil
	}
	found, err = o.t.find(&row, selectObserved+`WHERE id = ?`, id)
	return row, found, err
}

func (o *observer) sandbox(row sandboxRow) error {
	if o.store.order.buried(row.ID, o.asked) {
		return nil
	}
	old, found, err := o.storedSandbox(row.ID)
	if err != nil {
		return err
	}
	if found {
		if o.endedByReboot(life{old.State, old.StartedAt}, life{row.State, row.StartedAt}) {
			row.State, row.StartedAt = pod.RunExited, old.StartedAt
			if row.ExitedAt == "" || row.ExitedAt == old.ExitedAt {
				row.ExitedAt = o.t.now()
			}
		}
		if o.late(row.ID, life{row.State, row.StartedAt}, life{old.State, old.StartedAt}) {
			return nil
		}
		row.ChangedAt = old.ChangedAt
	}
	row.Run = old.Run
	if row.StartedAt != "" && !row.StartedAt.sameStart(old.StartedAt) {
		row.Run++
	}
	o.taken(row.ID, row != old)
	if row == old {
		return nil
	}
	row.ChangedAt = o.t.now()
	if err := o.t.named(putSandbox, row); err != nil {
		return err
	}
	if o.sandboxes != nil {
		o.sandboxes[row.ID] = row
	}
	o.t.touch(row.PodUID)
	if old.State.Live() && row.State.Live() && row.Run > old.Run {
		return o.t.carryOver(row, old.Run)
	}
	return nil
}

func (o *observer) container(row observedRow) error {
	if o.store.order.buried(row.ID, o.asked) {
		return nil
	}
	old, found, err := o.storedContainer(row.ID)
	if err != nil {
		return err
	}
	if !found {
		if err := o.resolveEnd(nil, &row); err != nil {
			return err
		}
		if row.SandboxRun, err = o.sandboxRun(nil, row); err != nil {
			return err
		}
		o.taken(row.ID, true)
		return o.putContainer(nil, row)
	}
	if o.endedByReboot(life{old.State, old.StartedAt}, life{row.State, row.StartedAt}) {
		endAtReboot(&row, old, o.t.now())
	}
	if old.State != pod.RunGone && o.late(row.ID, life{row.State, row.StartedAt}, life{old.State, old.StartedAt}) {
		return nil
	}
	if err := o.resolveEnd(&old, &row); err != nil {
		return err
	}
	if row.SandboxRun, err = o.sandboxRun(&old, row); err != nil {
		return err
	}
	row.ChangedAt = old.ChangedAt
	o.taken(row.ID, row != old)
	if row == old {
		return nil
	}
	if old.EndCause == pod.CauseExit && row.ended() && row.EndCause != old.EndCause {
		if err := o.amend(row); err != nil {
			return err
		}
	}
	return o.putContainer(&old, row)
}

// amend corrects the recorded cause of an end whose cause was learnt only now:
// Podman reports that a process died before it reports that it was told to.
func (o *observer) amend(row observedRow) error {
	_, err := o.t.Exec(`UPDATE transitions SET cause = ?, detail = ? WHERE cause = ? AND rowid =
		(SELECT max(rowid) FROM transitions WHERE pod_uid = ? AND container = ? AND attempt = ?)`,
		row.EndCause, row.EndDetail, pod.CauseExit, row.PodUID, row.Container, row.Attempt)
	return err
}

func (o *observer) putContainer(old *observedRow, row observedRow) error {
	row.ChangedAt = o.t.now()
	if err := o.t.named(putObserved, row); err != nil {
		return err
	}
	o.t.touch(row.PodUID)
	if old == nil {
		// The attempts before it need no longer be remembered once removed.
		_, err := o.t.Exec(`DELETE FROM observed_containers WHERE pod_uid = ? AND container = ? AND attempt < ? AND state = ?`,
			row.PodUID, row.Container, row.Attempt, pod.RunGone)
		if err != nil {
			return err
		}
		if err := o.t.raiseAttempt(row.PodUID, row.Container, row.Attempt); err != nil {
			return err
		}
	}
	return o.edge(old, &row)
}

// resolveEnd says why a container that has ended did. The first answer for a
// run stands, unless it was only that the process ended.
func (o *observer) resolveEnd(old, row *observedRow) error {
	given, detail := row.EndCause, row.EndDetail
	if !row.ended() {
		row.EndCause, row.EndDetail = "", ""
		if old != nil && old.ended() {
			return o.dropIntent(row.ID) // it was about the run before
		}
		return nil
	}
	known := old != nil && old.ended() && row.StartedAt.sameStart(old.StartedAt)
	if row.FinishedAt == "" {
		row.FinishedAt = o.t.now()
		if known { // and so is how it ended, if anyone knows
			row.FinishedAt, row.ExitCode = old.FinishedAt, old.ExitCode
		}
	}
	if known {
		row.EndCause, row.EndDetail = old.EndCause, old.EndDetail
		better := row.OOMKilled || given != "" && given != pod.CauseExit
		if old.EndCause == pod.CauseExit && better {
			o.inferEnd(row, given, detail)
		}
		return nil
	}
	intent, found, err := o.intent(row.ID)
	switch {
	case err != nil:
		return err
	case found:
		row.EndCause, row.EndDetail = intent.Cause, intent.Detail
	case o.facts.Rebooted && old != nil && old.State.Live():
		row.EndCause, row.EndDetail = pod.CauseReboot, "the machine was restarted"
	default:
		o.inferEnd(row, given, detail)
	}
	return nil
}

// inferEnd goes by what the runtime reported.
func (o *observer) inferEnd(row *observedRow, given pod.Cause, detail string) {
	switch {
	case row.OOMKilled:
		row.EndCause, row.EndDetail = pod.CauseOOM, "the kernel killed it for lack of memory"
	case given != "":
		row.EndCause, row.EndDetail = given, detail
	default:
		row.EndCause, row.EndDetail = pod.CauseExit, detail
	}
}

type intentRow struct {
	Cause  pod.Cause `db:"cause"`
	Detail string    `db:"detail"`
}

func (o *observer) intent(id string) (row intentRow, found bool, err error) {
	found, err = o.t.find(&row, `SELECT cause, detail FROM intents WHERE container_id = ?`, id)
	return row, found, err
}

func (o *observer) dropIntent(id string) error {
	_, err := o.t.Exec(`DELETE FROM intents WHERE container_id = ?`, id)
	return err
}

// edge stores the transitions that follow from a change of a container. What
// becomes of an attempt that a later one followed is no change of the container,
// unless it ran.
func (o *observer) edge(old, updated *observedRow) error {
	var before, after *pod.Container
	row := updated
	if old != nil {
		c := old.container()
		before, row = &c, old
	}
	if updated != nil {
		c := updated.container()
		after, row = &c, updated
	}
	var last struct {
		To     string    `db:"to"`
		Cause  pod.Cause `db:"cause"`
		Detail string    `db:"detail"`
	}
	_, err := o.t.find(&last, `SELECT "to", cause, detail FROM transitions WHERE pod_uid = ? AND container = ? ORDER BY rowid DESC LIMIT 1`, row.PodUID, row.Container)
	if err != nil {
		return err
	}
	list := o.store.containerEdge(pod.Transition{To: last.To, Cause: last.Cause, Detail: last.Detail}, before, after)
	if len(list) == 0 {
		return nil
	}
	if before == nil || !before.State.Live() {
		var followed bool
		err := o.t.Get(&followed, `SELECT EXISTS (SELECT 1 FROM observed_containers WHERE pod_uid = ? AND container = ? AND attempt > ?)`, row.PodUID, row.Container, row.Attempt)
		if err != nil || followed {
			return err
		}
	}
	var generation int64
	if _, err := o.t.find(&generation, `SELECT generation FROM desired_pods WHERE uid = ?`, row.PodUID); err != nil {
		return err
	}
	for _, tr := range list {
		tr.Key, tr.UID = pod.Key{Namespace: row.Namespace, Name: row.Pod}, row.PodUID
		tr.Container, tr.Machine = row.Container, pod.MachineContainer
		tr.Generation, tr.Attempt = generation, row.Attempt
		if err := o.t.addTransition(tr); err != nil {
			return err
		}
	}
	return nil
}

// noteBoot remembers the boot that the observations are of.
func (s *Store) noteBoot(t *WriteTx) error {
	_, err := t.Exec(`INSERT INTO meta (key, value) VALUES ('boot_id', ?)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value <> excluded.value`, s.bootID)
	if err == nil {
		t.onCommit(func() { s.rebooted.Store(false) })
	}
	return err
}

// Rebooted reports whether the machine was restarted since the last complete
// listing of the runtime that was recorded; recording one with Rebooted set
// makes it false.
func (s *Store) Rebooted() bool { return s.rebooted.Load() }
